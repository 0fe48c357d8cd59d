// Logging facade. The executable owns the only logger (spdlog, kept inside src/base/log_spdlog.cpp:
// LibTorch ships another fmt that shadows its headers); the engine and the CUDA unit install a sink
// that hands their records over the unit border. Without a sink, records go to stderr.
#pragma once

#include <functional>
#include <string>

namespace trainctl {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogSink = std::function<void(LogLevel, const std::string&)>;
void set_log_sink(LogSink sink);
// Every record also goes to `copy`, until the object ends.
class LogCopy {
 public:
  explicit LogCopy(LogSink copy);
  ~LogCopy();
  LogCopy(const LogCopy&) = delete;
  LogCopy& operator=(const LogCopy&) = delete;
};
void log(LogLevel level, const std::string& message);

inline void log_debug(const std::string& m) { log(LogLevel::kDebug, m); }
inline void log_info(const std::string& m) { log(LogLevel::kInfo, m); }
inline void log_warning(const std::string& m) { log(LogLevel::kWarning, m); }
inline void log_error(const std::string& m) { log(LogLevel::kError, m); }

}  // namespace trainctl
