// Note [Guard]
// Nothing that the ranks start may outlive the launcher, however it ends. The launcher itself
// cannot see to that: SIGKILL leaves it no time, and the kernel's parent-death signal reaches only
// direct children. So each attempt's ranks are children of a guard process, which is a subreaper:
// whoever loses its parent below it becomes its child, also after setsid() and daemonising. The
// guard waits on a channel from the launcher. When the launcher ends the attempt, or is gone (the
// channel's end closes with it), the guard kills whatever is below it until wait() says that there
// is nothing. When the guard itself is killed, the ranks get SIGKILL as their parent-death signal,
// and the rest falls to the launcher, a subreaper too. Ranks that have ended stay zombies until the
// attempt ends, so that their process numbers, which are also those of their process groups, are
// not given to others while the launcher signals them.
#include "launch/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "launch/descendants.h"
#include "trainctl/base/files.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOwnEnd{100};  // for leftovers to end by themselves
constexpr milliseconds kKillPatience{10000};

WorkerEvent make_event(WorkerEvent::Kind kind, size_t index, int value) {
  WorkerEvent event;
  event.kind = kind;
  event.index = static_cast<int32_t>(index);
  event.value = value;
  event.time_ns = Clock::now().time_since_epoch().count();
  return event;
}

void send_event(int channel, const WorkerEvent& event) {
  // A launcher that is gone is noticed elsewhere.
  while (::send(channel, &event, sizeof event, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void pin_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  const int capacity = *std::max_element(cpus.begin(), cpus.end()) + 1;
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
  if (set == nullptr) return;
  const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
  CPU_ZERO_S(size, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), size, set);
  ::sched_setaffinity(0, size, set);  // a wish: a processor may have gone off line meanwhile
  CPU_FREE(set);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// As a program expects to find them, whatever the launcher made of them; what nohup ignores stays
// ignored.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    struct sigaction before = {};
    if (::sigaction(number, nullptr, &before) != 0) continue;
    if (number == SIGHUP && before.sa_handler == SIG_IGN) continue;
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_worker(const GuardTask& task, size_t index, pid_t guard) {
  const WorkerCommand& command = (*task.commands)[index];
  ::setsid();  // a process group of its own, and no terminal that would stop it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(127);  // it died before the signal was asked for
  pin_to(command.cpus);
  // Descriptors 0 to 2 are open in every trainctl process, so the sources are others or themselves.
  ::dup2(command.input, 0);
  ::dup2(command.output, 1);
  ::dup2(command.error, 2);
  for (const int fd : {0, 1, 2}) ::fcntl(fd, F_SETFD, 0);
  reset_signals();
  ::execve(command.path.c_str(), pointers(command.argv).data(),
           pointers(command.environment).data());
  send_event(task.channel, make_event(WorkerEvent::Kind::kExecFailed, index, errno));
  ::_exit(127);
}

void close_all_but(int kept, int kept_too) {
  std::vector<int> open;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    open.push_back(std::atoi(entry->path().filename().c_str()));
  }
  for (const int fd : open)
    if (fd > 2 && fd != kept && fd != kept_too) ::close(fd);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

class Guard {
 public:
  explicit Guard(const GuardTask& task) : task_(task) {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all, child;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    child_fd_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void run() {
    start_workers();
    close_all_but(task_.channel, child_fd_);
    char order = 0;
    while (order == 0) {
      wait_for_news(milliseconds(-1));
      report_exits();
      reap_orphans();
      order = read_order();
    }
    if (order == kGuardEnd) end_gently();
    kill_descendants(kKillPatience);
    if (launcher_is_gone_ && !task_.temporary.empty()) {
      std::error_code error;
      fs::remove_all(task_.temporary, error);
    }
  }

 private:
  void start_workers() {
    const pid_t self = ::getpid();
    for (size_t i = 0; i < task_.commands->size(); ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) become_worker(task_, i, self);
      pids_.push_back(pid);
      if (pid < 0) {
        send_event(task_.channel, make_event(WorkerEvent::Kind::kExecFailed, i, errno));
        send_event(task_.channel, make_event(WorkerEvent::Kind::kExited, i, 127));
      } else {
        send_event(task_.channel, make_event(WorkerEvent::Kind::kStarted, i, pid));
      }
    }
  }

  void wait_for_news(milliseconds limit) {
    pollfd fds[] = {{task_.channel, POLLIN, 0}, {child_fd_, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(limit.count()));
    signalfd_siginfo ignored = {};
    while (::read(child_fd_, &ignored, sizeof ignored) > 0) {
    }
  }

  char read_order() {
    char order = 0;
    const ssize_t got = ::recv(task_.channel, &order, 1, MSG_DONTWAIT);
    if (got == 1) return order;
    const bool gone = got == 0 || (errno != EAGAIN && errno != EINTR);
    launcher_is_gone_ = gone;
    return gone ? kGuardKill : '\0';
  }

  void report_exits() {
    for (size_t i = 0; i < pids_.size(); ++i) {
      if (pids_[i] <= 0 || ended(i)) continue;
      siginfo_t info = {};
      // WNOWAIT: it stays a zombie, see Note [Guard].
      const auto id = static_cast<id_t>(pids_[i]);
      if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        continue;
      ended_.push_back(i);
      const bool exited = info.si_code == CLD_EXITED;
      send_event(task_.channel,
                 make_event(exited ? WorkerEvent::Kind::kExited : WorkerEvent::Kind::kKilled, i,
                            info.si_status));
    }
  }

  bool ended(size_t index) const {
    return std::find(ended_.begin(), ended_.end(), index) != ended_.end();
  }

  void reap_orphans() {
    for (const pid_t child : children_of(::getpid())) {
      if (std::find(pids_.begin(), pids_.end(), child) == pids_.end())
        ::waitpid(child, nullptr, WNOHANG);
    }
  }

  // Until `limit`, or until no child is left (true).
  static bool reap_all_until(Clock::time_point limit, int child_fd) {
    while (true) {
      pid_t reaped = 0;
      while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
      }
      if (reaped < 0 && errno == ECHILD) return true;
      const auto left = std::chrono::duration_cast<milliseconds>(limit - Clock::now());
      if (left.count() <= 0) return false;
      pollfd fds[] = {{child_fd, POLLIN, 0}};
      // SIGCHLD of several children may be one; look again now and then.
      ::poll(fds, 1, static_cast<int>(std::min<int64_t>(left.count(), 20)));
      signalfd_siginfo ignored = {};
      while (::read(child_fd, &ignored, sizeof ignored) > 0) {
      }
    }
  }

  void end_gently() {
    if (reap_all_until(Clock::now() + kOwnEnd, child_fd_)) return;
    for (const RunningProcess& process : descendants_of(::getpid())) {
      if (process.is_dead()) continue;
      WorkerEvent event = make_event(WorkerEvent::Kind::kLeftBehind, 0, process.pid);
      std::strncpy(event.name, process.name.c_str(), sizeof event.name - 1);
      send_event(task_.channel, event);
      ::kill(process.pid, SIGTERM);
      ::kill(process.pid, SIGCONT);  // a stopped one could not end
    }
    // In steps, so that the launcher's death or order to kill is noticed.
    const auto limit = Clock::now() + task_.end_patience;
    while (Clock::now() < limit) {
      if (reap_all_until(std::min(limit, Clock::now() + milliseconds(50)), child_fd_)) return;
      if (read_order() != 0) return;
    }
  }

  const GuardTask& task_;
  int child_fd_ = -1;
  std::vector<pid_t> pids_;
  std::vector<size_t> ended_;
  bool launcher_is_gone_ = false;
};

}  // namespace

bool kill_descendants(milliseconds patience) {
  const auto limit = Clock::now() + patience;
  for (auto pause = milliseconds(1);; pause = std::min(pause * 2, milliseconds(50))) {
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return true;
    if (Clock::now() >= limit) return false;
    for (const RunningProcess& process : descendants_of(::getpid()))
      if (!process.is_dead()) ::kill(process.pid, SIGKILL);
    std::this_thread::sleep_for(pause);
  }
}

void run_guard(const GuardTask& task) {
  set_process_title("launch-guard");
  Guard(task).run();
  ::_exit(0);
}

}  // namespace trainctl
