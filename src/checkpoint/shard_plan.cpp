#include "checkpoint/shard_plan.h"

#include <algorithm>
#include <cstdio>

namespace trainctl {
namespace {

uint64_t total_bytes(const TensorSet& set) {
  uint64_t total = 0;
  for (const PlannedTensor& tensor : set.tensors) total += tensor.bytes;
  return total;
}

std::string shard_name(const std::string& stem, size_t index, size_t count) {
  if (count == 1) return stem + ".safetensors";
  char suffix[48];
  std::snprintf(suffix, sizeof suffix, "-%05zu-of-%05zu.safetensors", index + 1, count);
  return stem + suffix;
}

// Neighbours stay together, as readers of single layers expect.
std::vector<Shard> fill_shards(const TensorSet& set, uint64_t target) {
  std::vector<Shard> shards(1);
  for (const PlannedTensor& tensor : set.tensors) {
    if (!shards.back().tensors.empty() && shards.back().bytes + tensor.bytes > target) {
      shards.emplace_back();
    }
    shards.back().tensors.push_back(tensor.name);
    shards.back().bytes += tensor.bytes;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shard_name(set.stem, i, shards.size());
  }
  return shards;
}

// The largest first, each to the rank that has least; the lowest of equal ones.
void choose_owners(ShardPlan* plan, int64_t ranks) {
  std::vector<Shard*> shards;
  for (ShardedSet& set : plan->sets) {
    for (Shard& shard : set.shards) shards.push_back(&shard);
  }
  std::stable_sort(shards.begin(), shards.end(),
                   [](const Shard* a, const Shard* b) { return a->bytes > b->bytes; });
  std::vector<uint64_t> load(static_cast<size_t>(ranks));
  for (Shard* shard : shards) {
    const auto least = std::min_element(load.begin(), load.end());
    shard->owner = least - load.begin();
    *least += std::max<uint64_t>(shard->bytes, 1);
  }
}

}  // namespace

uint64_t ShardPlan::bytes_of(int64_t rank) const {
  uint64_t total = 0;
  for (const ShardedSet& set : sets) {
    for (const Shard& shard : set.shards) total += shard.owner == rank ? shard.bytes : 0;
  }
  return total;
}

ShardPlan plan_shards(const std::vector<TensorSet>& sets, int64_t ranks, uint64_t shard_bytes) {
  ShardPlan plan;
  for (const TensorSet& set : sets) plan.bytes += total_bytes(set);
  const auto count = static_cast<uint64_t>(std::max<int64_t>(ranks, 1));
  const uint64_t part = (plan.bytes + count - 1) / count;
  const uint64_t target = std::min(shard_bytes, std::max(kLeastShardBytes, part));
  for (const TensorSet& set : sets) {
    plan.sets.push_back({set.stem, fill_shards(set, target), total_bytes(set)});
  }
  choose_owners(&plan, static_cast<int64_t>(count));
  return plan;
}

}  // namespace trainctl
