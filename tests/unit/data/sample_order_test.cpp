#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data_fixtures.h"

namespace trainctl {
namespace {

std::vector<int64_t> epoch_order(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < order.size(); ++i) samples.push_back(order.at(epoch, i));
  return samples;
}

TEST(SampleOrder, HoldsEverySampleOnceWithTheShorterWindowLast) {
  for (const int64_t size : {1, 2, 3, 10, 257, 1000}) {
    for (const int64_t last : {5, 8}) {
      const NumberedDataset dataset(size, 8, last);
      const SampleOrder order(dataset, 1, /*shuffle=*/true);
      for (const int64_t epoch : {0, 1, 2}) {
        std::vector<int64_t> samples = epoch_order(order, epoch);
        if (last < 8) {
          EXPECT_EQ(samples.back(), size - 1);
        }
        std::sort(samples.begin(), samples.end());
        std::vector<int64_t> all(static_cast<size_t>(size));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(samples, all);
      }
    }
  }
}

TEST(SampleOrder, DiffersByEpochAndSeed) {
  const NumberedDataset dataset(50, 8);
  const SampleOrder one(dataset, 1, true), two(dataset, 2, true);
  EXPECT_NE(epoch_order(one, 0), epoch_order(one, 1));
  EXPECT_NE(epoch_order(one, 0), epoch_order(two, 0));
  EXPECT_EQ(epoch_order(one, 3), epoch_order(SampleOrder(dataset, 1, true), 3));
}

TEST(SampleOrder, KeepsTheOrderOfTheDataWithoutShuffling) {
  const NumberedDataset dataset(4, 8, 3);
  EXPECT_THAT(epoch_order(SampleOrder(dataset, 1, false), 5), testing::ElementsAre(0, 1, 2, 3));
}

// Checkpoints hold a position in this order: a change of it breaks every one written before.
TEST(SampleOrder, IsFrozen) {
  const NumberedDataset dataset(12, 8, 3);
  const SampleOrder order(dataset, 1, true);
  EXPECT_THAT(epoch_order(order, 0), testing::ElementsAre(3, 5, 7, 9, 1, 6, 10, 0, 4, 8, 2, 11));
  EXPECT_THAT(epoch_order(order, 1), testing::ElementsAre(4, 1, 8, 2, 7, 5, 3, 0, 6, 10, 9, 11));
  const NumberedDataset large(1'000'000'007, 8);
  EXPECT_EQ(SampleOrder(large, 42, true).at(3, 123456789), 269042961);
}

TEST(SampleOrder, DescribesTheExtentForThePlan) {
  const DataExtent even = extent_of(NumberedDataset(10, 8));
  EXPECT_EQ(even.sequences_per_epoch, 10);
  EXPECT_EQ(even.tokens_per_epoch, 80);
  EXPECT_EQ(even.short_window_tokens, 0);
  const DataExtent ragged = extent_of(NumberedDataset(10, 8, 3));
  EXPECT_EQ(ragged.sequences_per_epoch, 10);
  EXPECT_EQ(ragged.tokens_per_epoch, 75);
  EXPECT_EQ(ragged.short_window_tokens, 3);
}

}  // namespace
}  // namespace trainctl
