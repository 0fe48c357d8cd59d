#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data_fixtures.h"

namespace trainctl {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

Batches evaluated(const std::shared_ptr<const Dataset>& dataset, int64_t batch_size,
                  int64_t max_batches, const WorldShape& world) {
  FakeDevice device;
  const auto loader = make_eval_loader(dataset, batch_size, max_batches, world, device);
  Batches batches;
  while (const auto batch = loader->next()) batches.push_back(samples_of(*batch));
  EXPECT_FALSE(loader->next());
  return batches;
}

TEST(EvalLoader, GivesEverySampleOnceInOrder) {
  const auto dataset = std::make_shared<NumberedDataset>(7, 8);
  EXPECT_EQ(evaluated(dataset, 3, 0, {}), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(evaluated(dataset, 100, 0, {}), (Batches{{0, 1, 2, 3, 4, 5, 6}}));
}

TEST(EvalLoader, GivesTheShorterWindowABatchOfItsOwn) {
  FakeDevice device;
  const auto dataset = std::make_shared<NumberedDataset>(5, 8, 3);
  EXPECT_EQ(evaluated(dataset, 3, 0, {}), (Batches{{0, 1, 2}, {3}, {4}}));
  const auto loader = make_eval_loader(dataset, 8, 0, {}, device);
  EXPECT_EQ(loader->next()->tokens.sizes(), (at::IntArrayRef{4, 8}));
  EXPECT_EQ(loader->next()->tokens.sizes(), (at::IntArrayRef{1, 3}));
}

TEST(EvalLoader, EvaluatesTheSameSamplesAtAnyRankCount) {
  for (const int64_t size : {1, 6, 7, 20}) {
    for (const int64_t last : {0, 3}) {
      const auto dataset = std::make_shared<NumberedDataset>(size, 8, last);
      for (const int64_t max_batches : {0, 1, 2, 3, 100}) {
        std::vector<int64_t> expected;
        for (const auto& batch : evaluated(dataset, 3, max_batches, {}))
          expected.insert(expected.end(), batch.begin(), batch.end());
        for (const int64_t world : {2, 3, 5}) {
          std::vector<int64_t> seen;
          size_t rounds = 0;
          for (int64_t rank = 0; rank < world; ++rank) {
            const Batches batches = evaluated(dataset, 3, max_batches, {world, rank});
            if (rank == 0) rounds = batches.size();
            EXPECT_EQ(batches.size(), rounds);  // so that collective operations meet
            for (const auto& batch : batches)
              std::copy_if(batch.begin(), batch.end(), std::back_inserter(seen),
                           [](int64_t sample) { return sample >= 0; });
          }
          std::sort(seen.begin(), seen.end());
          EXPECT_EQ(seen, expected) << size << " " << last << " " << max_batches << " " << world;
        }
      }
    }
  }
}

TEST(EvalLoader, StopsAfterMaxBatches) {
  const auto dataset = std::make_shared<NumberedDataset>(20, 8);
  EXPECT_EQ(evaluated(dataset, 3, 2, {}), (Batches{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(evaluated(dataset, 3, 2, {2, 1}), (Batches{{3, 4, 5}}));
  EXPECT_EQ(evaluated(dataset, 3, 1, {2, 1}), (Batches{{-1}}));
}

}  // namespace
}  // namespace trainctl
