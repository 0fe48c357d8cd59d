// Processes as /proc shows them, and which process wrote something, told apart from a later one
// with the same number.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace trainctl {

// /proc/<pid>/stat, whose second field, the name, may hold blanks and brackets.
struct ProcessStat {
  std::string name;
  std::vector<std::string> fields;  // from the third on

  // As proc(5) numbers them, from 3; empty where the kernel is older than the field.
  std::string field(size_t number) const;
  long long number(size_t field_number) const;
};
std::optional<ProcessStat> read_process_stat(pid_t pid);

struct ProcessIdentity {
  std::string host;
  pid_t pid = 0;
  std::string
      start_time;  // clock ticks since boot, from /proc/<pid>/stat; process numbers are reused

  static ProcessIdentity self();
  static ProcessIdentity parse(const std::string& text);  // pid 0 when it is not one
  std::string to_string() const;                          // "process 123 (started 456) on host7\n"
  bool is_alive() const;                                  // only asked on its own host
};

}  // namespace trainctl
