// A rank's part of a checkpoint: the shards it owns, written into the folder that all ranks share.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {

// What became of it. Travels between ranks as JSON.
struct Part {
  std::map<std::string, WrittenFile> files;
  std::string error;  // of a UserError; empty: all is written
};

std::string part_to_json(const Part& part);
Part part_from_json(const std::string& json);

// Weights and optimizer state as the sets that are planned.
std::vector<TensorSet> tensor_sets(const CheckpointContent& content);

// Those tensors that `rank` writes, in the order of the plan.
std::vector<TensorEntry> owned_tensors(const CheckpointContent& content, const ShardPlan& plan,
                                       int64_t rank);

// Writes the shards of `rank` from `tensors` (those owned_tensors has named, or copies of them).
// The files are synced, the folder is not. Throws checkpoint_error.
std::map<std::string, WrittenFile> write_part(const fs::path& folder, const ShardPlan& plan,
                                              int64_t rank, const std::vector<TensorEntry>& tensors,
                                              const std::atomic<bool>* cancelled);

// Throws checkpoint_error when `folder` has less room than `bytes` and what files need besides.
void require_space(const fs::path& folder, int64_t step, uint64_t bytes);

}  // namespace trainctl
