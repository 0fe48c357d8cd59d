#include "trainctl/base/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace trainctl {
namespace {

LogSink& sink() {
  static LogSink instance;
  return instance;
}

LogSink& copy_sink() {
  static LogSink instance;
  return instance;
}

// Recursive, as a sink that fails may log that.
std::recursive_mutex& mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink new_sink) {
  const std::lock_guard guard(mutex());
  sink() = std::move(new_sink);
}

LogCopy::LogCopy(LogSink copy) {
  const std::lock_guard guard(mutex());
  copy_sink() = std::move(copy);
}

LogCopy::~LogCopy() {
  const std::lock_guard guard(mutex());
  copy_sink() = nullptr;
}

void log(LogLevel level, const std::string& message) {
  const std::lock_guard guard(mutex());
  if (copy_sink()) copy_sink()(level, message);
  if (sink()) {
    sink()(level, message);
    return;
  }
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  if (level == LogLevel::kDebug) return;
  std::fprintf(stderr, "%s: %s\n", kNames[static_cast<int>(level)], message.c_str());
}

}  // namespace trainctl
