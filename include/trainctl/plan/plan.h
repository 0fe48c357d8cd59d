// From a config and the world's shape to what the run will do: pure arithmetic, no devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

struct WorldShape {
  int64_t world_size = 1;
  int64_t rank = 0;
};

// What the data hold, in windows of seq_len. The last window of an epoch may be shorter; it comes
// last in every epoch's order and is a step of its own, weighted by what it holds.
struct DataExtent {
  int64_t sequences_per_epoch = 0;  // the shorter one included
  int64_t tokens_per_epoch = 0;     // target tokens
  int64_t short_window_tokens = 0;  // tokens of the shorter window; 0: every window is full
};

struct BatchPlan {
  int64_t micro_batch_size = 0;             // sequences per rank and micro-batch
  int64_t global_batch_size = 0;            // sequences per step, over all ranks
  int64_t gradient_accumulation_steps = 0;  // micro-batches per rank and step
  int64_t tokens_per_step = 0;              // global_batch_size × seq_len
};

// Throws usage_error when micro batch, accumulation, global batch and ranks disagree.
BatchPlan plan_batches(const TrainingConfig& training, int64_t seq_len, const WorldShape& world);

struct RunPlan {
  BatchPlan batch;
  int64_t steps_per_epoch = 0;
  // From max_steps, max_tokens and epochs, whichever is first; 0: only max_time limits the run.
  int64_t total_steps = 0;
  int64_t warmup_steps = 0;
  int64_t parameter_count = 0;
  std::string run_dir;                // <output_dir>/<name>
  std::vector<std::string> warnings;  // settings that are allowed but hardly meant
};

// Throws usage_error for a batch split that does not work out, for a run without a limit and for a
// schedule that needs a number of steps in a run that only max_time limits; data_error for no data.
RunPlan make_plan(const Config& config, const DataExtent& extent, const WorldShape& world);

// Steps of one epoch: full batches, the batch of full windows left over, and the shorter window.
int64_t steps_per_epoch(const DataExtent& extent, int64_t global_batch_size);

// Why backend.cudnn_benchmark costs time in this run: it tries the kernels anew for every input
// shape, and an epoch that does not divide into equal batches has several. Empty when it does not.
std::string varying_shapes(const Config& config, const DataExtent& extent, const BatchPlan& batch);

// Trainable parameters, a tied embedding counted once.
int64_t count_parameters(const ModelConfig& model);

}  // namespace trainctl
