// Which tensor goes into which file, and which rank writes it: a pure function of the names, the
// sizes and the number of ranks, so that every rank comes to the same plan without asking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl {

struct PlannedTensor {
  std::string name;
  uint64_t bytes = 0;
};

// Tensors that belong together: the weights, or the optimizer's state.
struct TensorSet {
  std::string stem;  // "model" → model.safetensors, or model-00001-of-00003.safetensors
  std::vector<PlannedTensor> tensors;
};

struct Shard {
  std::string file;
  std::vector<std::string> tensors;
  uint64_t bytes = 0;
  int64_t owner = 0;  // the rank that writes it
};

struct ShardedSet {
  std::string stem;
  std::vector<Shard> shards;  // at least one, which may be empty
  uint64_t bytes = 0;
};

struct ShardPlan {
  std::vector<ShardedSet> sets;
  uint64_t bytes = 0;

  uint64_t bytes_of(int64_t rank) const;
};

// Splitting a smaller state over ranks would only make more files to sync.
inline constexpr uint64_t kLeastShardBytes = uint64_t{64} << 20;

// Shards hold up to `shard_bytes`; a tensor is never split, so that a larger one is a shard of its
// own. Where the state is large enough, there are about as many shards as ranks, and each is given
// to the rank with the least to write.
ShardPlan plan_shards(const std::vector<TensorSet>& sets, int64_t ranks, uint64_t shard_bytes);

}  // namespace trainctl
