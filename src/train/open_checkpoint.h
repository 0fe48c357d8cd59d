// A checkpoint by the path that a user gives.
#pragma once

#include <string>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {

inline constexpr const char* kWhatHoldsCheckpoints =
    "give a run directory (runs/NAME) or one of its checkpoints (runs/NAME/checkpoints/step-N)";

// Whether a folder is one checkpoint, rather than a run or a folder of checkpoints.
bool is_step_folder(const fs::path& path);

// What a path may stand for.
struct CheckpointCandidates {
  std::vector<fs::path> folders;  // newest first
  fs::path checkpoints;           // the folder they are in
  // One checkpoint was named: it is good or an error, and no other will do.
  bool named = false;
  bool asked = false;  // for by the user
};

// All in `checkpoints`, also unfinished ones, which are to be warned of.
CheckpointCandidates candidates_in(const fs::path& checkpoints);

// `path` is a checkpoint folder, a run directory or a folder of checkpoints; otherwise an error
// with code `not_there`. checkpoint_error when there are no checkpoints.
CheckpointCandidates candidates_at(const std::string& path, ExitCode not_there);

// Loads the one that is named, or the newest good one with a warning for each one passed over.
LoadedCheckpoint open_checkpoint(const std::string& path, ExitCode not_there);

}  // namespace trainctl
