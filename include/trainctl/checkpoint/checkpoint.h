// A checkpoint is `checkpoints/step-N/`: weights and optimizer state as safetensors files or shards
// with an index, state.json, manifest.json (sizes and checksums) and the marker COMPLETE. Only a
// marked and verified one is ever loaded (docs/checkpoint-format.md). Who saves during a run:
// checkpoint_saver.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/manifest.h"
#include "trainctl/checkpoint/tensor_files.h"

namespace trainctl {

inline constexpr const char* kModelStem = "model";
inline constexpr const char* kOptimizerStem = "optimizer";

struct CheckpointContent {
  int64_t step = 0;
  std::vector<TensorEntry> model;      // parameters by name
  std::vector<TensorEntry> optimizer;  // "<parameter>.exp_avg", …
  std::string state_json;              // the trainer's scalars; format in docs/checkpoint-format.md
  std::optional<double> validation_loss = {};  // of a validation at this very step
};

struct Retention {
  int64_t keep_latest = 3;  // at least 1
  int64_t keep_every = 0;   // steps; those at a multiple stay for good; 0: off
  int64_t keep_best = 0;    // by validation loss; 0: off
};

// Writes and commits step-N by itself, replacing one of that step; returns its folder. Only then
// removes what keep_latest lets go of. Throws checkpoint_error (path, errno's text, cure) and
// leaves earlier ones untouched. One process per folder.
fs::path save_checkpoint(const fs::path& checkpoints_dir, const CheckpointContent& content,
                         int64_t keep_latest);

struct LoadedCheckpoint {
  fs::path path;
  int64_t step = 0;
  TensorFiles model, optimizer;
  std::string state_json;
  Manifest manifest;
};

// Those that carry the marker, by step, ascending; not yet verified.
std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& checkpoints_dir);

// All that stand for a step, ascending, also those without the marker, which are there to be
// warned of.
std::vector<std::pair<int64_t, fs::path>> checkpoint_folders(const fs::path& checkpoints_dir);

// Which of a checkpoint's files one of several ranks reads through for their checksums: every
// ranks-th. Sizes, headers and small files are everybody's.
struct VerifyShare {
  int64_t rank = 0, ranks = 1;
};

// Verifies sizes and checksums; throws checkpoint_error naming file and reason.
LoadedCheckpoint load_checkpoint(const fs::path& step_dir, const VerifyShare& share = {});

// The newest one that verifies, warning about each damaged or unfinished one passed over. Empty
// when there is none at all; checkpoint_error when there are some but none is good, so that a run
// never begins anew unasked.
std::optional<LoadedCheckpoint> load_newest_checkpoint(const fs::path& checkpoints_dir);

// The two halves of it, for ranks that agree on one: an error unless the folder's name tells the
// step that it holds, and the error when none was good.
void require_own_step(const LoadedCheckpoint& loaded);
UserError no_good_checkpoint(const fs::path& checkpoints_dir, size_t count);

// What interrupted saves and removals left is finished or undone. Only at the start of a run, under
// its lock: nothing of the kind is then in use.
void sweep_checkpoints(const fs::path& checkpoints_dir);

}  // namespace trainctl
