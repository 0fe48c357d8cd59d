// From a config and the world's shape to what the run will do: pure arithmetic, no devices.
#pragma once

#include <cstdint>
#include <string>

#include "trainctl/config/config.h"

namespace trainctl {

struct WorldShape {
  int64_t world_size = 1;
  int64_t rank = 0;
};

// What the data hold, in windows of seq_len (the last one of an epoch may be shorter).
struct DataExtent {
  int64_t sequences_per_epoch = 0;
  int64_t tokens_per_epoch = 0;  // target tokens
};

struct BatchPlan {
  int64_t micro_batch_size = 0;             // sequences per rank and micro-batch
  int64_t global_batch_size = 0;            // sequences per step, over all ranks
  int64_t gradient_accumulation_steps = 0;  // micro-batches per rank and step
  int64_t tokens_per_step = 0;              // global_batch_size × seq_len
};

// Throws usage_error when the three numbers disagree.
BatchPlan plan_batches(const TrainingConfig& training, int64_t seq_len, const WorldShape& world);

struct RunPlan {
  BatchPlan batch;
  int64_t steps_per_epoch = 0;
  int64_t total_steps =
      0;  // from max_steps, max_tokens and epochs, whichever is first; 0: only max_time limits
  int64_t warmup_steps = 0;
  int64_t parameter_count = 0;
  std::string run_dir;  // <output_dir>/<name>
};

RunPlan make_plan(const Config& config, const DataExtent& extent, const WorldShape& world);

// Trainable parameters, a tied embedding counted once.
int64_t count_parameters(const ModelConfig& model);

}  // namespace trainctl
