// A checkpoint is `checkpoints/step-N/`: model.safetensors, optimizer.safetensors, state.json,
// manifest.json (sizes and checksums) and the marker COMPLETE, renamed in last. Only a marked and
// verified one is ever loaded (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

// Writes and commits step-N, replacing one of that step; returns its folder. Only then removes the
// oldest complete ones of this run beyond keep_latest (at least 1). Those of a later step than the
// one just saved belong to another run: they are left alone, with a warning. Throws
// checkpoint_error (path, errno's text, cure) and leaves earlier ones untouched. One process per
// folder.
fs::path save_checkpoint(const fs::path& checkpoints_dir, const CheckpointContent& content,
                         int64_t keep_latest);

struct LoadedCheckpoint {
  fs::path path;
  int64_t step = 0;
  SafetensorsFile model, optimizer;
  std::string state_json;
};

// Those that carry the marker, by step, ascending; not yet verified.
std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& checkpoints_dir);

// Verifies sizes and checksums; throws checkpoint_error naming file and reason.
LoadedCheckpoint load_checkpoint(const fs::path& step_dir);

// The newest one that verifies, warning about each damaged or unfinished one passed over. Empty
// when there is none at all; checkpoint_error when there are some but none is good, so that a run
// never begins anew unasked.
std::optional<LoadedCheckpoint> load_newest_checkpoint(const fs::path& checkpoints_dir);

}  // namespace trainctl
