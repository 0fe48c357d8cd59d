// A checkpoint is `checkpoints/step-N/`: model.safetensors, optimizer.safetensors, state.json,
// manifest.json (sizes and checksums) and the marker COMPLETE, renamed in last. Only a marked and
// verified one is ever loaded (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/safetensors.h"

namespace trainctl {

struct CheckpointContent {
  int64_t step = 0;
  std::vector<TensorEntry> model;      // parameters by name
  std::vector<TensorEntry> optimizer;  // "<parameter>.exp_avg", …
  std::string state_json;              // the trainer's scalars; format in docs/checkpoint-format.md
};

// Writes and commits step-N; then removes this run's oldest complete ones beyond keep_latest.
// `protect` is never removed. Throws checkpoint_error (path and errno) and leaves earlier ones
// untouched.
fs::path save_checkpoint(const fs::path& checkpoints_dir, const CheckpointContent& content,
                         int64_t keep_latest);

struct LoadedCheckpoint {
  fs::path path;
  int64_t step = 0;
  SafetensorsFile model, optimizer;
  std::string state_json;
};

// Complete ones by step, ascending.
std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& checkpoints_dir);

// Verifies sizes and checksums; throws checkpoint_error naming file and reason.
LoadedCheckpoint load_checkpoint(const fs::path& step_dir);

// The newest one that verifies, warning about each damaged one passed over. Empty when there is
// none at all; checkpoint_error when there are some but none is good.
std::optional<LoadedCheckpoint> load_newest_checkpoint(const fs::path& checkpoints_dir);

}  // namespace trainctl
