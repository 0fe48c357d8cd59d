#include "launch/launch_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launch/open_files.h"

namespace trainctl {
namespace {

constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr int kOtherSignals[] = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

bool ignored_by_nohup(int number) {
  struct sigaction before = {};
  return number == SIGHUP && ::sigaction(number, nullptr, &before) == 0 &&
         before.sa_handler == SIG_IGN;
}

sigset_t read_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopSignals)
    if (!ignored_by_nohup(number)) sigaddset(&set, number);
  for (const int number : kOtherSignals) sigaddset(&set, number);
  return set;
}

}  // namespace

LaunchSignals::LaunchSignals() {
  const sigset_t set = read_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  // What is ignored is never read: a shell's background job ignores SIGINT.
  for (int number = 1; number < SIGRTMIN; ++number)
    if (sigismember(&set, number) == 1) ::signal(number, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) throw system_call_error("open a signal descriptor", errno);
}

LaunchSignals::~LaunchSignals() { ::close(fd_); }

std::optional<int> LaunchSignals::next() {
  signalfd_siginfo info = {};
  if (::read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool LaunchSignals::asks_to_stop(int signal_number) {
  for (const int number : kStopSignals)
    if (number == signal_number) return true;
  return false;
}

bool LaunchSignals::stop_pending() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  for (const int number : kStopSignals)
    if (sigismember(&pending, number) == 1) return true;
  return false;
}

}  // namespace trainctl
