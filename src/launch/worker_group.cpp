#include "launch/worker_group.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launch/guard.h"
#include "launch/open_files.h"
#include "trainctl/base/error.h"

namespace trainctl {

WorkerGroup::WorkerGroup(const std::vector<WorkerCommand>& commands, const std::string& temporary,
                         std::chrono::milliseconds end_patience)
    : pids_(commands.size(), 0) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw system_call_error("make a socket pair", errno);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should the guard be killed
  guard_ = ::fork();
  if (guard_ < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw environment_error(std::string("cannot start a process: ") + std::strerror(error) +
                            "; see ulimit -u and the control group's pids.max");
  }
  if (guard_ == 0) {
    ::close(ends[0]);
    run_guard({&commands, ends[1], temporary, end_patience});
  }
  ::close(ends[1]);
  channel_ = ends[0];
}

WorkerGroup::~WorkerGroup() {
  if (is_over()) return;
  kill();
  reap_guard();
}

std::optional<WorkerEvent> WorkerGroup::next_event() {
  if (channel_ < 0) return std::nullopt;
  WorkerEvent event;
  const ssize_t got = ::recv(channel_, &event, sizeof event, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof event)) {
    if (event.kind == WorkerEvent::Kind::kStarted)
      pids_[static_cast<size_t>(event.index)] = event.value;
    return event;
  }
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) reap_guard();
  return std::nullopt;
}

void WorkerGroup::signal(size_t index, int signal_number) const {
  if (channel_ < 0 || told_ || pids_[index] <= 0) return;
  // Right after fork it has no group of its own yet; the signal then waits until it unblocks it.
  if (::kill(-pids_[index], signal_number) != 0 && errno == ESRCH)
    ::kill(pids_[index], signal_number);
}

void WorkerGroup::wake_guard() const {
  if (channel_ >= 0) ::kill(guard_, SIGCONT);
}

void WorkerGroup::end() {
  if (channel_ < 0) return;
  told_ = true;
  wake_guard();
  ::send(channel_, &kGuardEnd, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerGroup::kill() {
  if (channel_ < 0) return;
  told_ = true;
  wake_guard();
  ::send(channel_, &kGuardKill, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerGroup::reap_guard() {
  if (channel_ >= 0) ::close(channel_);  // kills what is left, if anything
  channel_ = -1;
  int status = 0;
  while (::waitpid(guard_, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFSIGNALED(status) && WEXITSTATUS(status) == 0) return;
  guard_was_killed_ = true;
  kill_descendants(std::chrono::seconds(10));
}

}  // namespace trainctl
