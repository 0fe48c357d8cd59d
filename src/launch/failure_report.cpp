#include "launch/failure_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launch/launch_signals.h"
#include "trainctl/base/error.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

constexpr size_t kMessageLines = 40;

std::string kill_cause(const FailureFacts& facts) {
  const uint64_t group = facts.oom_now.control_group - facts.oom_before.control_group;
  const uint64_t machine = facts.oom_now.machine - facts.oom_before.machine;
  if (group > 0 || machine > 0) {
    const OomKills& before = facts.oom_before;
    const OomKills& now = facts.oom_now;
    const std::string counter =
        group > 0
            ? "control group's oom_kill counter rose from " + std::to_string(before.control_group) +
                  " to " + std::to_string(now.control_group)
            : "machine's oom_kill counter rose from " + std::to_string(before.machine) + " to " +
                  std::to_string(now.machine);
    return "out of memory: the kernel's OOM killer struck (the " + counter + ", " +
           human_duration(facts.oom_seconds_before) +
           " before); ask for more memory, or use less: smaller batches, fewer loader workers";
  }
  if (facts.end.signal != SIGKILL) return "";
  return "killed from outside (kill -9, a scheduler's limit); the kernel's out-of-memory counters "
         "did not move";
}

std::string bus_cause(const FailureFacts& facts) {
  std::string text = "a page of memory had nothing behind it";
  if (facts.shm_size > 0 && facts.shm_free < facts.shm_size / 16) {
    return text + ": /dev/shm is full (" + human_bytes(facts.shm_free) + " of " +
           human_bytes(facts.shm_size) +
           " left); enlarge it, in Docker with --shm-size=8g or "
           "--ipc=host";
  }
  return text + "; usual reasons are a full or tiny /dev/shm" +
         (facts.shm_size > 0 ? " (" + human_bytes(facts.shm_size) + " here, " +
                                   human_bytes(facts.shm_free) + " free)"
                             : "") +
         " or a mapped file that was cut meanwhile";
}

std::string signal_cause(const FailureFacts& facts) {
  switch (facts.end.signal) {
    case SIGSEGV:
      return "it touched memory that is not its own: a defect in native code, often libraries of "
             "different builds in one process; ulimit -c unlimited keeps a core file";
    case SIGABRT:
      return "it gave up by abort(): a failed assertion or an uncaught C++ exception, which its "
             "last lines name";
    case SIGILL:
      return "an instruction that this processor does not have: the program was built for a newer "
             "one";
    case SIGFPE:
      return "an integer division by zero in native code";
    case SIGXCPU:
      return "the limit on processor time (ulimit -t) was reached";
    case SIGXFSZ:
      return "the limit on file size (ulimit -f) was reached";
    case SIGPIPE:
      return "it wrote to a pipe that nobody reads any more";
    case SIGSYS:
      return "a system call that the container or sandbox forbids";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return std::string("somebody other than this launcher sent ") +
             signal_name(facts.end.signal) + " to it";
    default:
      return "";
  }
}

const char* own_code_meaning(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::kUsage:
      return "command line or config wrong";
    case ExitCode::kEnvironment:
      return "the machine is not fit: driver, library, GPU, NCCL, port";
    case ExitCode::kData:
      return "data wrong";
    case ExitCode::kCheckpoint:
      return "checkpoint wrong";
    default:
      return "";
  }
}

// The code alone says less than the rank's own words, which stand below: a run folder that cannot
// be written ends with the code of a wrong command line, because the cure is in the config.
bool said_why(const FailureFacts& facts) {
  return std::any_of(facts.last_lines.begin(), facts.last_lines.end(), [](const std::string& line) {
    return line.find("trainctl: error: ") != std::string::npos;
  });
}

std::string code_cause(const FailureFacts& facts) {
  const int code = facts.end.exit_code;
  if (facts.is_trainctl) return said_why(facts) ? "" : own_code_meaning(code);
  for (const std::string& line : facts.last_lines) {
    if (line.find("ModuleNotFoundError: No module named 'torch'") == std::string::npos) continue;
    return "the Python that ran it has no torch: launch takes $PYTHON_EXEC, else the python3 of "
           "the "
           "PATH; activate the environment that has it, or set PYTHON_EXEC to its Python";
  }
  if (code > 128 && code < 128 + 65) {
    return "a shell or wrapper around the program passes on that " +
           std::string(signal_name(code - 128)) + " ended it";
  }
  if (code == 127) return "a shell found no such command";
  if (code == 126) return "a shell may not execute the command";
  return "";
}

std::string indented(const std::string& text, size_t most_lines) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    lines.emplace_back(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), lines.back().size() + 1));
  }
  std::string result;
  const size_t first = lines.size() > most_lines ? lines.size() - most_lines : 0;
  for (size_t i = first; i < lines.size(); ++i) result += "\n    | " + lines[i];
  return result;
}

}  // namespace

std::string report_row(const char* label, const std::string& value) {
  if (value.empty()) return "";
  std::string text = "\n  " + std::string(label);
  text.resize(3 + 11, ' ');
  return text + value;
}

std::string end_text(const RankEnd& end) {
  if (end.exec_errno != 0)
    return std::string("could not be started: ") + std::strerror(end.exec_errno);
  if (end.signal != 0)
    return std::string("was killed by ") + signal_name(end.signal) + " (signal " +
           std::to_string(end.signal) + ")";
  return "ended with exit code " + std::to_string(end.exit_code);
}

bool is_spontaneous(const RankEnd& end) {
  return end.signal == SIGKILL || end.signal == SIGSEGV || end.signal == SIGBUS ||
         end.signal == SIGILL || end.signal == SIGFPE || end.signal == SIGSYS;
}

bool worth_a_restart(const RankEnd& end) {
  if (end.exec_errno != 0) return false;
  const bool is_final = (end.exit_code >= 2 && end.exit_code <= 5) || end.exit_code == 75;
  return end.signal != 0 || !is_final;
}

std::string likely_cause(const FailureFacts& facts) {
  if (facts.end.exec_errno == ENOEXEC) return "it is no program, and has no #! line";
  if (facts.end.exec_errno != 0) return "";
  if (facts.guard_was_killed) {
    return "somebody killed the launcher's guard process (launch-guard), and the kernel the ranks "
           "with it";
  }
  if (std::string cause = kill_cause(facts); !cause.empty()) return cause;
  if (facts.end.signal == SIGBUS) return bus_cause(facts);
  if (facts.end.signal != 0) return signal_cause(facts);
  return code_cause(facts);
}

std::string error_file_message(const std::string& content) {
  const auto json = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("message")) return "";
  const auto& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  if (!message.is_object()) return "";
  const auto text_of = [](const nlohmann::json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string()
               ? object[key].get<std::string>()
               : std::string();
  };
  const std::string stack =
      message.contains("extraInfo") ? text_of(message["extraInfo"], "py_callstack") : "";
  return stack.empty() ? text_of(message, "message") : stack;
}

std::string failure_text(const FailureFacts& facts) {
  const std::string rank = std::to_string(facts.rank);
  std::string text = "rank " + rank + " on " + facts.host + " " + end_text(facts.end);
  text += report_row("program", facts.program);
  text += report_row("process", std::to_string(facts.pid) + " (local rank " +
                                    std::to_string(facts.local_rank) + "), attempt " +
                                    std::to_string(facts.attempt) + ", " +
                                    human_duration(facts.seconds) + " after its start");
  text += report_row("likely", likely_cause(facts));
  text += report_row("log", join(facts.log_files, ", "));
  const std::string message = error_file_message(facts.error_file_text);
  // Python prints the same traceback before it ends, trainctl the same message behind its name;
  // once is enough.
  const auto last = message.find_last_not_of(" \n");
  const size_t line = last == std::string::npos ? 0 : message.rfind('\n', last) + 1;
  const std::string last_line =
      last == std::string::npos ? "" : message.substr(line, last + 1 - line);
  const bool printed = std::any_of(
      facts.last_lines.begin(), facts.last_lines.end(),
      [&](const std::string& printed_line) { return printed_line.ends_with(last_line); });
  if (!message.empty() && !printed)
    text += "\n  error it recorded:" + indented(message, kMessageLines);
  if (facts.last_lines.empty()) {
    text += report_row("output", "none");
  } else if (facts.lines_shown && facts.last_lines.size() == 1 && said_why(facts)) {
    text += report_row("output", "one line, its error, which stands above");
  } else if (facts.lines_on_screen) {
    text += report_row("output", "its last lines stand right above");
  } else {
    text += "\n  its last lines:" + indented(join(facts.last_lines, "\n"), facts.last_lines.size());
  }
  return replace_invalid_utf8(text);
}

}  // namespace trainctl
