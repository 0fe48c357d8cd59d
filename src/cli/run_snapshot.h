// The snapshot of the machine that a run saves in its folder: made by a process of its own, so that
// nothing that hangs or crashes there meets the run.
#pragma once

#include <sys/types.h>

#include "trainctl/base/files.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {

class RunSnapshot {
 public:
  explicit RunSnapshot(const ProcessWorld& world) : world_(world) {}
  // A snapshot that is not ready two seconds after the run's end is given up.
  ~RunSnapshot();
  RunSnapshot(const RunSnapshot&) = delete;
  RunSnapshot& operator=(const RunSnapshot&) = delete;

  // On each host its first rank starts one: doctor.json, on further hosts doctor.<host>.json.
  void start(const fs::path& run_directory);

 private:
  ProcessWorld world_;
  pid_t child_ = -1;
};

}  // namespace trainctl
