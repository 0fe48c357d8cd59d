#include "trainctl/base/stop.h"

#include <csignal>
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

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a stop request must not break reads and writes in flight
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  // A file size limit must be an error of the write that meets it (EFBIG), not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
}

int stop_signal() { return requested; }

}  // namespace trainctl
