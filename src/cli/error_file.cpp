#include "cli/error_file.h"

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainctl/base/files.h"

namespace trainctl {
namespace {

void write_error_file(const fs::path& path, const std::string& message) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  // Renaming over a device or a FIFO would take it away from others.
  if (fs::exists(there) && !fs::is_regular_file(there)) return;
  try {
    write_file_atomic(path, error_file_text(message, std::time(nullptr)),
                      ExitCode::kTrainingFailed);
  } catch (const std::exception& failure) {
    log_debug(std::string("no error file for the launcher: ") + failure.what());
  }
}

}  // namespace

// As ErrorHandler.record_exception in torch.distributed.elastic.multiprocessing.errors writes it.
// torchrun reads a timestamp in whole seconds and shows py_callstack, or message without one.
std::string error_file_text(const std::string& message, long long seconds) {
  const nlohmann::json json = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

LogSink with_error_file(LogSink sink) {
  const char* named = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (named == nullptr || *named == '\0') return sink;
  std::error_code error;
  const fs::path path = fs::absolute(named, error);
  // The terminal first: a file system that hangs must not keep the error from the user.
  return [sink = std::move(sink), path](LogLevel level, const std::string& text) {
    sink(level, text);
    if (level == LogLevel::kError) write_error_file(path, text);
  };
}

}  // namespace trainctl
