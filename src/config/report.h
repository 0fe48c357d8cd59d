// Collects everything wrong with a config, so that the user reads it all at once.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace trainctl {

struct Place {
  int source = 0;    // 0: the file; n: the n-th --set
  int64_t line = 0;  // 0: the file as a whole
  int64_t column = 0;
};

class ProblemReport {
 public:
  explicit ProblemReport(std::string file_name) : file_name_(std::move(file_name)) {}

  void add(const Place& place, const std::string& key_path, const std::string& text);
  bool empty() const { return problems_.empty(); }
  bool has(const std::string& key_path) const;     // at the key or a section around it
  bool touches(const std::string& section) const;  // at the section or anything in it
  std::string where(const Place& place) const;     // "run.json:12", "--set"
  void throw_if_any() const;  // usage_error with all of them, in order of place

 private:
  struct Problem {
    Place place;
    std::string text;
  };
  std::string file_name_;
  std::vector<Problem> problems_;
  std::set<std::string> wrong_keys_;
};

}  // namespace trainctl
