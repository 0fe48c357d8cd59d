#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/worker_group.h"

namespace trainctl {

// What the launcher writes into the channel.
constexpr char kGuardEnd = 'E';
constexpr char kGuardKill = 'K';

struct GuardTask {
  const std::vector<WorkerCommand>* commands = nullptr;
  int channel = -1;
  std::string temporary;
  std::chrono::milliseconds end_patience{5000};
};

// The life of the guard process, right after fork. See Note [Guard].
[[noreturn]] void run_guard(const GuardTask& task);

// Kills every descendant of this process, which must be their reaper, until none is left or
// `patience` has passed. False when some are left (waiting inside the kernel).
bool kill_descendants(std::chrono::milliseconds patience);

}  // namespace trainctl
