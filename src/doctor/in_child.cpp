#include "doctor/in_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace trainctl::doctor {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  ChildAnswer answer;
};

void write_all(int descriptor, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(descriptor, text.data() + at, text.size() - at);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) at += static_cast<size_t>(wrote);
  }
}

// What libraries print while they are asked belongs to nobody.
void silence() {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere < 0) return;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
}

[[noreturn]] void child_main(const std::function<std::string()>& function, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  silence();
  try {
    write_all(pipe, "+" + function());
  } catch (const std::exception& error) {
    write_all(pipe, std::string("-") + error.what());
  }
  ::_exit(0);
}

Child start(const std::function<std::string()>& function) {
  Child child;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    child.answer.failed = std::string("no pipe: ") + std::strerror(errno);
    return child;
  }
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid == 0) child_main(function, ends[1], parent);
  if (child.pid < 0) {
    child.answer.failed = std::string("no process: ") + std::strerror(errno);
    ::close(ends[0]);
  } else {
    child.pipe = ends[0];
  }
  ::close(ends[1]);
  return child;
}

void collect(Child* child) {
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::string& text = child->answer.text;
  std::string& failed = child->answer.failed;
  if (WIFSIGNALED(status) && failed.empty()) {
    failed = std::string("ended by SIG") + ::sigabbrev_np(WTERMSIG(status));
  } else if (failed.empty() && text.empty()) {
    failed = "ended with exit code " + std::to_string(WEXITSTATUS(status));
  } else if (failed.empty() && text[0] == '-') {
    failed = text.substr(1);
  }
  text = failed.empty() ? text.substr(1) : "";
}

// False at the end of the stream.
bool read_some(Child* child) {
  char buffer[65536];
  const ssize_t got = ::read(child->pipe, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR;
  child->answer.text.append(buffer, static_cast<size_t>(got));
  return got > 0;
}

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

}  // namespace

std::vector<ChildAnswer> in_children(const std::vector<std::function<std::string()>>& functions,
                                     std::chrono::milliseconds deadline) {
  std::vector<Child> children;
  for (const auto& function : functions) children.push_back(start(function));
  const Clock::time_point end = Clock::now() + deadline;
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Child*> owners;
    for (Child& child : children) {
      if (child.pipe < 0) continue;
      waiting.push_back({child.pipe, POLLIN, 0});
      owners.push_back(&child);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (waiting.empty() || left.count() <= 0) break;
    ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0 || read_some(owners[i])) continue;
      ::close(owners[i]->pipe);
      owners[i]->pipe = -1;
      collect(owners[i]);
    }
  }
  std::vector<ChildAnswer> answers;
  for (Child& child : children) {
    if (child.pipe >= 0) {
      child.answer.failed = "no answer within " + seconds_text(deadline);
      ::kill(child.pid, SIGKILL);
      ::close(child.pipe);
      // A child in the kernel's hands (a dead network file system) cannot be waited for.
      ::waitpid(child.pid, nullptr, WNOHANG);
      child.answer.text.clear();
    }
    answers.push_back(std::move(child.answer));
  }
  return answers;
}

}  // namespace trainctl::doctor
