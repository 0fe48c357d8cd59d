// What the surroundings say about a launch where flags and variables are silent.
#pragma once

#include "trainctl/launch/options.h"

namespace trainctl {

// Fills in what was not given from the Slurm step that this launcher is a task of: number of nodes,
// own number, where they meet, run id. A flag that contradicts Slurm is refused with both values.
void apply_launch_defaults(const EnvironmentLookup& variable, LaunchOptions* options);

}  // namespace trainctl
