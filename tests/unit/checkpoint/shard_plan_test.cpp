#include "checkpoint/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trainctl {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<TensorSet> state_of(const std::vector<uint64_t>& sizes) {
  TensorSet model{"model", {}}, optimizer{"optimizer", {}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    model.tensors.push_back({name, sizes[i]});
    optimizer.tensors.push_back({name + ".exp_avg", sizes[i]});
    optimizer.tensors.push_back({name + ".exp_avg_sq", sizes[i]});
  }
  return {model, optimizer};
}

std::vector<std::string> files(const ShardedSet& set) {
  std::vector<std::string> out;
  for (const Shard& shard : set.shards) out.push_back(shard.file);
  return out;
}

// Every tensor once, in order, and no shard above `limit` unless it holds a single tensor.
void expect_sound(const ShardPlan& plan, const std::vector<TensorSet>& sets, uint64_t limit,
                  int64_t ranks) {
  ASSERT_EQ(plan.sets.size(), sets.size());
  uint64_t total = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    auto next = sets[i].tensors.begin();
    for (const Shard& shard : plan.sets[i].shards) {
      uint64_t bytes = 0;
      for (const std::string& name : shard.tensors) {
        ASSERT_NE(next, sets[i].tensors.end());
        EXPECT_EQ(name, next->name);
        bytes += next++->bytes;
      }
      EXPECT_EQ(shard.bytes, bytes);
      EXPECT_TRUE(bytes <= limit || shard.tensors.size() == 1) << shard.file << " " << bytes;
      EXPECT_TRUE(shard.owner >= 0 && shard.owner < ranks);
      total += bytes;
    }
    EXPECT_EQ(next, sets[i].tensors.end());
  }
  EXPECT_EQ(plan.bytes, total);
}

TEST(ShardPlan, ASmallStateIsOneFileEachWrittenByTwoRanksAtMost) {
  const ShardPlan plan = plan_shards(state_of({100, 200, 300}), 8, 2048 * kMiB);
  EXPECT_THAT(files(plan.sets[0]), ElementsAre("model.safetensors"));
  EXPECT_THAT(files(plan.sets[1]), ElementsAre("optimizer.safetensors"));
  EXPECT_EQ(plan.sets[1].shards[0].owner, 0);  // the larger one
  EXPECT_EQ(plan.sets[0].shards[0].owner, 1);
  EXPECT_EQ(plan.bytes, 1800U);
}

TEST(ShardPlan, NamesAreThoseOfTheHuggingFaceLibraries) {
  const ShardPlan plan = plan_shards(state_of({60, 60, 60}), 1, 100);
  EXPECT_THAT(files(plan.sets[0]),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors"));
}

TEST(ShardPlan, AnEmptySetStillHasItsFile) {
  const ShardPlan plan = plan_shards({{"model", {{"w", 4}}}, {"optimizer", {}}}, 3, 100);
  EXPECT_THAT(files(plan.sets[1]), ElementsAre("optimizer.safetensors"));
  EXPECT_TRUE(plan.sets[1].shards[0].tensors.empty());
}

TEST(ShardPlan, ATensorIsNeverSplitAndALargeOneStandsAlone) {
  const auto sets = state_of({10, 500, 10, 10});
  const ShardPlan plan = plan_shards(sets, 2, 100);
  expect_sound(plan, sets, 100, 2);
  EXPECT_THAT(plan.sets[0].shards[1].tensors, ElementsAre("p1"));
}

TEST(ShardPlan, ALargeStateIsSpreadOverAllRanksEvenly) {
  for (const int64_t ranks : {1, 2, 3, 4, 7, 8, 16}) {
    const auto sets = state_of(std::vector<uint64_t>(96, 20 * kMiB));  // 5.6 GiB
    const ShardPlan plan = plan_shards(sets, ranks, 2048 * kMiB);
    expect_sound(plan, sets, 2048 * kMiB, ranks);
    uint64_t most = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_GT(plan.bytes_of(rank), 0U);
      most = std::max(most, plan.bytes_of(rank));
    }
    EXPECT_LE(most, 2 * plan.bytes / static_cast<uint64_t>(ranks) + 20 * kMiB) << ranks;
  }
}

TEST(ShardPlan, AMiddlingStateIsNotCutIntoCrumbs) {
  const auto sets = state_of(std::vector<uint64_t>(10, 10 * kMiB));  // 300 MiB
  const ShardPlan plan = plan_shards(sets, 64, 2048 * kMiB);
  for (const ShardedSet& set : plan.sets) {
    for (size_t i = 0; i + 1 < set.shards.size(); ++i) EXPECT_GE(set.shards[i].bytes, 60 * kMiB);
  }
}

TEST(ShardPlan, EveryRankComesToTheSame) {
  const auto sets = state_of({7 * kMiB, 300 * kMiB, kMiB, 64 * kMiB, 64 * kMiB, 90 * kMiB});
  const ShardPlan a = plan_shards(sets, 3, 128 * kMiB), b = plan_shards(sets, 3, 128 * kMiB);
  for (size_t i = 0; i < a.sets.size(); ++i) {
    for (size_t j = 0; j < a.sets[i].shards.size(); ++j) {
      EXPECT_EQ(a.sets[i].shards[j].owner, b.sets[i].shards[j].owner);
    }
  }
}

}  // namespace
}  // namespace trainctl
