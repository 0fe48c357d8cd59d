#include "train/run_log.h"

#include "trainctl/base/log.h"

namespace trainctl {

RunLog::RunLog(const fs::path& path) : path_(path.string()), file_(path, std::ios::app) {}

void RunLog::write(const std::string& text) {
  if (file_ << text << std::flush || warned_) return;
  warned_ = true;
  log_warning("cannot write " + path_ + "; training goes on without it");
}

}  // namespace trainctl
