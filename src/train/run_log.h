// logs/run.log: what a person would have seen, as plain lines, over all resumes of a run.
#pragma once

#include <fstream>
#include <string>

#include "trainctl/base/files.h"

namespace trainctl {

class RunLog {
 public:
  explicit RunLog(const fs::path& path);
  // Warns once when the file cannot be written, and never throws: logging does not stop training.
  void write(const std::string& text);

 private:
  std::string path_;
  std::ofstream file_;
  bool warned_ = false;
};

}  // namespace trainctl
