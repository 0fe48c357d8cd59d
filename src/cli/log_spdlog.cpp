// The one logger of the program. spdlog stays in this file: LibTorch ships another fmt, whose
// headers shadow the one spdlog needs.
#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include <cstdlib>
#include <memory>

#include "cli/terminal.h"

namespace trainctl {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::unique_ptr<spdlog::logger> make_logger() {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(
      plain ? spdlog::color_mode::never : spdlog::color_mode::automatic);
  auto logger = std::make_unique<spdlog::logger>("trainctl", sink);
  logger->set_pattern("trainctl: %^%l%$: %v");
  logger->flush_on(spdlog::level::debug);
  return logger;
}

}  // namespace

LogSink terminal_log_sink() {
  return [](LogLevel level, const std::string& text) {
    // Made at the first record: commands that say nothing do not pay for it.
    static const std::unique_ptr<spdlog::logger> logger = make_logger();
    terminal().around_progress([&] { logger->log(level_of(level), text); });
  };
}

}  // namespace trainctl
