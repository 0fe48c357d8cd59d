// Which of how many processes this one is, from the environment that a launcher has set.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trainctl/base/world.h"

namespace trainctl {

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The process's own environment; an empty variable counts as unset.
EnvironmentLookup process_environment();

// torchrun's variables, which our launcher sets too, else those of the Slurm step that srun has
// started. Neither: a single process. Incomplete, contradicting or senseless ones, and other
// launchers' (mpirun), are refused with the variables' names and values (exit code 2).
ProcessWorld read_process_world(const EnvironmentLookup& variable);

}  // namespace trainctl
