#include "train/run_log.h"

#include "trainctl/base/log.h"

namespace trainctl {

RunLog::RunLog(const fs::path& path)
    : path_(path.string()),
      file_(path, std::ios::app),
      records_([this](LogLevel level, const std::string& message) {
        if (level == LogLevel::kDebug) return;
        write((level == LogLevel::kWarning ? "warning: " : "") + message + "\n");
      }) {}

void RunLog::write(const std::string& text) {
  if (warned_ || file_ << text << std::flush) return;
  warned_ = true;  // first: the warning comes back here
  log_warning("cannot write " + path_ + "; training goes on without it");
}

}  // namespace trainctl
