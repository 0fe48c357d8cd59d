// Does the run fit the machine at all? Asked before the first step.
#pragma once

#include <cstdint>

#include "trainctl/base/files.h"
#include "trainctl/config/config.h"

namespace trainctl {

// Weights, gradients and optimizer state alone, in bytes (fp32): activations come on top.
uint64_t training_state_bytes(const OptimizerConfig& optimizer, int64_t parameters);

// Weights and optimizer state of one checkpoint.
uint64_t checkpoint_bytes(const OptimizerConfig& optimizer, int64_t parameters);

// Host memory that each of so many ranks keeps for the copy that checkpoint.async writes from, in
// the mean. It comes on top where it can be had; otherwise saves are made without.
uint64_t checkpoint_copy_bytes(const Config& config, int64_t parameters, int64_t ranks);

// Throws usage_error naming both sizes when they exceed `memory_bytes` (0: unknown), which so many
// processes share, each with a model of its own.
void require_memory(const Config& config, int64_t parameters, uint64_t memory_bytes,
                    int64_t sharing_processes = 1);

// Throws usage_error when `folder` has no room for one checkpoint and the final weights.
void require_disk(const fs::path& folder, const OptimizerConfig& optimizer, int64_t parameters);

// What is to be said when `folder` has room for one checkpoint, but not for as many as are kept and
// one in the making; empty when it has. `present`: how many are there already.
std::string disk_warning(const fs::path& folder, const Config& config, int64_t parameters,
                         int64_t present);

}  // namespace trainctl
