// The training run: set-up, loop, validation, checkpoints, end.
#pragma once

#include <string>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/base/world.h"
#include "trainctl/config/config.h"
#include "trainctl/train/host.h"

namespace trainctl {

// --resume auto and never look into the run's own folder; anything else is a path.
inline bool is_automatic(const std::string& resume) {
  return resume == "auto" || resume == "never";
}

struct RunOptions {
  std::string resume = "auto";  // auto, never, or the path of a checkpoint or run directory
  // Started again by a launcher: what earlier attempts saved comes first, whatever `resume` says.
  bool restarted = false;
  bool print_param_hash = false;
  std::vector<std::string> config_warnings;
};

// Throws UserError; returns kOk when finished (or finished before), kStoppedWithCheckpoint when
// stopped by a signal or max_time. Every process of `world` calls it.
ExitCode run_training(const Config& config, const ProcessWorld& world, const RunOptions& options,
                      const RunHost& host);

}  // namespace trainctl
