// logs/run.log: what a person would have seen, as plain lines, over all resumes of a run.
#pragma once

#include <fstream>
#include <string>

#include "trainctl/base/files.h"
#include "trainctl/base/log.h"

namespace trainctl {

class RunLog {
 public:
  explicit RunLog(const fs::path& path);
  // Records of the log (resumes, warnings) stand in it too.
  // Warns once when the file cannot be written, and never throws: logging does not stop training.
  void write(const std::string& text);

 private:
  std::string path_;
  std::ofstream file_;
  bool warned_ = false;
  LogCopy records_;  // last: it writes to the others
};

}  // namespace trainctl
