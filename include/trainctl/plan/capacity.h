// Does the run fit the machine at all? Asked before the first step.
#pragma once

#include <cstdint>

#include "trainctl/base/files.h"
#include "trainctl/config/config.h"

namespace trainctl {

// Weights, gradients and optimizer state alone, in bytes (fp32): activations come on top.
uint64_t training_state_bytes(const OptimizerConfig& optimizer, int64_t parameters);

// Throws usage_error naming both sizes when they exceed `memory_bytes` (0: unknown), which so many
// processes share, each with a model of its own.
void require_memory(const Config& config, int64_t parameters, uint64_t memory_bytes,
                    int64_t sharing_processes = 1);

// Throws usage_error when `folder` has no room for one checkpoint and the final weights.
void require_disk(const fs::path& folder, const OptimizerConfig& optimizer, int64_t parameters);

}  // namespace trainctl
