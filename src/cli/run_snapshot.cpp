#include "cli/run_snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "trainctl/base/process.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{2000};

// Not fork: this process has the engine's threads and memory.
pid_t spawn_doctor(const std::string& path) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  }
  // A pipe that the run inherited must not stay open for its sake.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string text = path;
  std::string parent = std::to_string(::getpid());
  char name[] = "trainctl", command[] = "doctor", flag[] = "--snapshot", of[] = "--snapshot-of";
  char* const words[] = {name, command, flag, text.data(), of, parent.data(), nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, words, environ) != 0) {
    child = -1;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

}  // namespace

void RunSnapshot::start(const fs::path& run_directory) {
  if (world_.local_rank != 0 || child_ > 0) return;
  const std::string name =
      world_.rank == 0 ? "doctor.json" : "doctor." + ProcessIdentity::self().host + ".json";
  child_ = spawn_doctor((run_directory / name).string());
}

RunSnapshot::~RunSnapshot() {
  if (child_ <= 0) return;
  const Clock::time_point end = Clock::now() + kPatience;
  while (::waitpid(child_, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= end) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace trainctl
