#include "trainctl/base/stop.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace trainctl {
namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int signal) {
  if (requested != 0 && signal == SIGINT) {
    // The user insists: end as the signal would, without waiting for the step.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  requested = signal;
}

}  // namespace

void prepare_process() {
  for (const int descriptor : {0, 1, 2}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null", O_RDWR);  // the lowest free number
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a stop request must not break reads and writes in flight
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    // What nohup set to be ignored stays so.
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
}

int stop_signal() { return requested; }

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace trainctl
