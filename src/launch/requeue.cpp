#include "launch/requeue.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr std::chrono::seconds kPatience{20};  // a controller under load answers late

struct Answer {
  bool ok = false;
  std::string text;  // both streams, without the line end
};

std::string read_to_end(int descriptor, pid_t child) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait = {descriptor, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      ::kill(child, SIGKILL);
      return text + "no answer";
    }
    char buffer[4096];
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// Runs a command of Slurm's.
Answer ask(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Answer answer;
  if (error != 0) {
    answer.text = std::strerror(error);
  } else {
    answer.text = read_to_end(ends[0], child);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    answer.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  ::close(ends[0]);
  while (!answer.text.empty() && std::isspace(static_cast<unsigned char>(answer.text.back())) != 0)
    answer.text.pop_back();
  return answer;
}

}  // namespace

void require_slurm_job(const EnvironmentLookup& variable) {
  if (variable("SLURM_JOB_ID")) return;
  throw usage_error(
      "--requeue puts a job of Slurm back into the queue, and this is none (SLURM_JOB_ID is not "
      "set); leave it out");
}

void requeue_slurm_job(const EnvironmentLookup& variable) {
  const std::string job = variable("SLURM_JOB_ID").value_or("");
  if (variable("SLURM_PROCID").value_or("0") != "0") return;
  // A cancelled job must not come back, a preempted one comes back without us: neither is RUNNING.
  const Answer state = ask({"squeue", "--noheader", "--jobs", job, "--format", "%T"});
  if (!state.ok) {
    log_error("--requeue: squeue does not tell the state of job " + job + ": " + state.text +
              "; put it back by hand: scontrol requeue " + job);
    return;
  }
  if (state.text != "RUNNING") {
    log_info("job " + job + " is " + state.text + ": not put back into the queue from here");
    return;
  }
  log_info("putting job " + job + " back into the queue");
  const Answer requeue = ask({"scontrol", "requeue", job});
  if (requeue.ok) return;
  log_error("--requeue: " + requeue.text +
            "; was the job submitted with --requeue? By hand: scontrol requeue " + job);
}

}  // namespace trainctl
