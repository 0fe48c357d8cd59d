#include "trainctl/base/log.h"

#include <cstdio>
#include <utility>

namespace trainctl {
namespace {

LogSink& sink() {
  static LogSink instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink new_sink) { sink() = std::move(new_sink); }

void log(LogLevel level, const std::string& message) {
  if (sink()) {
    sink()(level, message);
    return;
  }
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  if (level == LogLevel::kDebug) return;
  std::fprintf(stderr, "%s: %s\n", kNames[static_cast<int>(level)], message.c_str());
}

}  // namespace trainctl
