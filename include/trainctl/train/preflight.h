// `trainctl doctor --preflight`: the engine's own operations, tried and timed on all ranks.
#pragma once

#include <string>

#include "trainctl/base/error.h"
#include "trainctl/base/world.h"
#include "trainctl/train/host.h"

namespace trainctl {

struct PreflightOptions {
  std::string device = "auto";
  std::string output_dir = "runs";
  double deadline = 60;  // seconds for each step, and for ranks to come to it
  bool json = false;
};

// Every process of `world` calls it; rank 0 prints. Returns kEnvironment where a step fails, throws
// UserError where ranks do not answer, naming them.
ExitCode run_preflight(const PreflightOptions& options, const ProcessWorld& world,
                       const RunHost& host);

}  // namespace trainctl
