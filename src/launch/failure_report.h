// What is told about the rank that failed first.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/base/host.h"

namespace trainctl {

struct RankEnd {
  int exit_code = 0;  // when signal is 0
  int signal = 0;
  int exec_errno = 0;  // it could not be started
  bool is_failure() const { return signal != 0 || exit_code != 0; }
};

struct FailureFacts {
  std::string host;
  int64_t rank = 0;
  int64_t local_rank = 0;
  pid_t pid = 0;
  RankEnd end;
  double seconds = 0;  // after the attempt's start
  int64_t attempt = 0;
  std::string program;
  bool is_trainctl = false;
  std::vector<std::string> last_lines;
  bool lines_shown = false;      // on the same screen, somewhere above the report
  bool lines_on_screen = false;  // they stand right above the report
  std::string error_file_text;   // content of TORCHELASTIC_ERROR_FILE
  std::vector<std::string> log_files;
  OomKills oom_before, oom_now;
  double oom_seconds_before = 0;  // how long before the end the counter rose
  bool guard_was_killed = false;
  uint64_t shm_size = 0, shm_free = 0;  // /dev/shm; 0: unknown
};

std::string failure_text(const FailureFacts& facts);

// Why, as far as one can tell; empty: nothing to say beyond the rank's own words.
std::string likely_cause(const FailureFacts& facts);

// One row of the report: "  likely     out of memory: …"; nothing for an empty value.
std::string report_row(const char* label, const std::string& value);

// "ended with exit code 1", "was killed by SIGKILL (signal 9)".
std::string end_text(const RankEnd& end);

// The readable part of torchrun's error file, or empty.
std::string error_file_message(const std::string& content);

// Such a death is nobody's consequence; a broken connection or an abort may be.
bool is_spontaneous(const RankEnd& end);

// Codes 2 to 5 and 75 would end the same way again (docs/exit-codes.md).
bool worth_a_restart(const RankEnd& end);

}  // namespace trainctl
