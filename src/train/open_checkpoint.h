// Finding the checkpoint that a user named.
#pragma once

#include <string>

#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {

// `path` is a run directory, its checkpoints folder (the newest good one of either) or one step-N.
// Throws checkpoint_error; `not_there` is the code where there is no such folder.
LoadedCheckpoint open_checkpoint(const std::string& path, ExitCode not_there);

}  // namespace trainctl
