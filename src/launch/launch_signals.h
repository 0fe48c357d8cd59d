// Signals as readable events instead of interruptions.
#pragma once

#include <sys/types.h>

#include <optional>

namespace trainctl {

// From its making on, the signals below are blocked and read from fd(): SIGTERM, SIGINT, SIGHUP
// (unless nohup ignores it), SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT. SIGPIPE is ignored,
// SIGCHLD stands at its default, which wait(2) needs. They stay blocked afterwards: a signal that
// comes when all is over must not change the exit code.
class LaunchSignals {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  int fd() const { return fd_; }
  std::optional<int> next();

  static bool asks_to_stop(int signal_number);  // TERM, INT, HUP, QUIT
  // Such a signal is waiting to be read.
  static bool stop_pending();

 private:
  int fd_ = -1;
};

}  // namespace trainctl
