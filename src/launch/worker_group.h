// The rank processes of one attempt and everything they start, below a guard process. See Note
// [Guard] in guard.cpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

struct WorkerCommand {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<int> cpus;                 // empty: as inherited
  int input = 0, output = 1, error = 2;  // descriptors; closed by nobody here
};

struct WorkerEvent {
  enum class Kind : int32_t {
    kStarted,     // value: process number
    kExited,      // value: exit code
    kKilled,      // value: signal
    kExecFailed,  // value: errno; kExited with 127 follows
    kLeftBehind,  // value: process number of a process that had to be ended at the end; `name`
  };
  Kind kind = Kind::kStarted;
  int32_t index = 0;  // of the command
  int32_t value = 0;
  int64_t time_ns = 0;  // steady clock
  char name[32] = {};
};

class WorkerGroup {
 public:
  // Starts them. `temporary` is a folder that the guard removes should the launcher be killed.
  // `end_patience`: how long processes that outlive the ranks may take to end after SIGTERM.
  WorkerGroup(const std::vector<WorkerCommand>& commands, const std::string& temporary,
              std::chrono::milliseconds end_patience);
  // Kills what is left.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  int event_fd() const { return channel_; }  // readable: next_event has something, or is_over
  std::optional<WorkerEvent> next_event();

  // To a rank's whole process group; a rank that has ended may still have processes in it.
  void signal(size_t index, int signal_number) const;

  // A rank, or somebody, may have stopped (SIGSTOP) the guard, which could not report then.
  void wake_guard() const;
  void end();   // ask what the ranks left behind to end, then kill it
  void kill();  // at once
  // The guard is gone, and with it all processes of the attempt.
  bool is_over() const { return channel_ < 0; }
  // Somebody killed the guard; what it held was killed too.
  bool guard_was_killed() const { return guard_was_killed_; }

 private:
  void reap_guard();

  int channel_ = -1;
  pid_t guard_ = -1;
  std::vector<pid_t> pids_;  // as started; 0: not yet
  bool told_ = false;        // the guard knows that it is to end
  bool guard_was_killed_ = false;
};

}  // namespace trainctl
