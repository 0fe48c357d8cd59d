#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_fixtures.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using testing::ElementsAre;
using Samples = std::vector<std::vector<int64_t>>;

std::shared_ptr<NumberedDataset> numbered(int64_t size, int64_t last_length = 0,
                                          bool per_sequence = false) {
  return std::make_shared<NumberedDataset>(size, 8, last_length, per_sequence);
}

void expect_same_step(const StepBatch& a, const StepBatch& b) {
  ASSERT_EQ(a.micro_batches.size(), b.micro_batches.size());
  for (size_t i = 0; i < a.micro_batches.size(); ++i) {
    EXPECT_TRUE(a.micro_batches[i].tokens.equal(b.micro_batches[i].tokens));
    EXPECT_TRUE(a.micro_batches[i].targets.equal(b.micro_batches[i].targets));
  }
  EXPECT_EQ(a.valid_targets, b.valid_targets);
  EXPECT_EQ(a.position_after, b.position_after);
}

TEST(TrainLoader, CutsAStepIntoMicroBatches) {
  FakeDevice device;
  const auto loader = loader_for(numbered(100), device,
                                 {.micro_batch_size = 2, .accumulation = 3, .shuffle = false});
  const StepBatch step = loader->next();
  EXPECT_EQ(samples_of(step), (Samples{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(step.micro_batches[0].tokens.sizes(), (at::IntArrayRef{2, 8}));
  EXPECT_EQ(step.micro_batches[2].targets[1][7].item<int64_t>(), 5008);
  EXPECT_EQ(step.micro_batches[2].targets[1][0].item<int64_t>(), kIgnoreIndex);
  EXPECT_EQ(step.valid_targets, 6 * 8 - (0 + 1 + 2 + 0 + 1 + 2));
  EXPECT_EQ(step.position_after, (DataPosition{0, 6}));
}

// Five micro-batches at an accumulation of 2 and of 8: none is dropped.
TEST(TrainLoader, KeepsThePartialStepAtTheEndOfAnEpoch) {
  FakeDevice device;
  auto loader =
      loader_for(numbered(5), device, {.micro_batch_size = 1, .accumulation = 2, .shuffle = false});
  EXPECT_EQ(samples_of(loader->next()), (Samples{{0}, {1}}));
  EXPECT_EQ(samples_of(loader->next()), (Samples{{2}, {3}}));
  const StepBatch last = loader->next();
  EXPECT_EQ(samples_of(last), (Samples{{4}}));
  EXPECT_EQ(last.valid_targets, 8 - 1);
  EXPECT_EQ(last.position_after, (DataPosition{1, 0}));
  EXPECT_EQ(samples_of(loader->next()), (Samples{{0}, {1}}));

  loader =
      loader_for(numbered(5), device, {.micro_batch_size = 1, .accumulation = 8, .shuffle = false});
  EXPECT_EQ(samples_of(loader->next()), (Samples{{0}, {1}, {2}, {3}, {4}}));
  loader =
      loader_for(numbered(5), device, {.micro_batch_size = 2, .accumulation = 2, .shuffle = false});
  EXPECT_EQ(samples_of(loader->next()), (Samples{{0, 1}, {2, 3}}));
  EXPECT_EQ(samples_of(loader->next()), (Samples{{4}}));
}

TEST(TrainLoader, GivesTheShorterWindowAStepOfItsOwn) {
  FakeDevice device;
  const auto loader = loader_for(numbered(4, 3), device, {.micro_batch_size = 8});
  EXPECT_EQ(loader->next().micro_batches[0].tokens.sizes(), (at::IntArrayRef{3, 8}));
  const StepBatch step = loader->next();
  EXPECT_EQ(samples_of(step), (Samples{{3}}));
  EXPECT_EQ(step.micro_batches[0].tokens.sizes(), (at::IntArrayRef{1, 3}));
  EXPECT_EQ(step.micro_batches[0].targets.sizes(), (at::IntArrayRef{1, 3}));
  EXPECT_EQ(step.valid_targets, 3);
  EXPECT_EQ(step.position_after, (DataPosition{1, 0}));
}

TEST(TrainLoader, GivesRanksWithoutSamplesARowOfIgnoredTargets) {
  FakeDevice device;
  for (const int64_t rank : {0, 1, 2}) {
    const auto loader = loader_for(numbered(7, 3), device,
                                   {.micro_batch_size = 1, .world = {3, rank}, .shuffle = false});
    loader->next();
    EXPECT_EQ(samples_of(loader->next()), (Samples{{3 + rank}}));
    const StepBatch short_step = loader->next();
    EXPECT_EQ(samples_of(short_step), (Samples{{rank == 0 ? 6 : -1}}));
    EXPECT_EQ(short_step.micro_batches[0].tokens.sizes(), (at::IntArrayRef{1, 3}));
    EXPECT_EQ(short_step.valid_targets, 3);  // of all ranks
  }
}

TEST(TrainLoader, SharesAnEpochOutAlikeAtAnyRankCount) {
  FakeDevice device;
  for (const int64_t size : {1, 5, 12, 13, 29}) {
    for (const int64_t last : {0, 3}) {
      const auto dataset = numbered(size, size > 1 ? last : 0);
      const SampleOrder order(*dataset, 7, true);
      for (const int64_t world : {1, 2, 3, 4}) {
        for (const int64_t micro : {1, 2, 3}) {
          std::vector<std::unique_ptr<DataLoader>> ranks;
          for (int64_t rank = 0; rank < world; ++rank)
            ranks.push_back(
                loader_for(dataset, device,
                           {.micro_batch_size = micro, .accumulation = 2, .world = {world, rank}}));
          std::vector<int64_t> seen, expected;
          for (int64_t i = 0; i < size; ++i) expected.push_back(order.at(0, i));
          int64_t steps = 0;
          for (DataPosition at; at.epoch == 0; ++steps) {
            int64_t valid = 0;
            std::vector<StepBatch> parts;
            for (const auto& rank : ranks) parts.push_back(rank->next());
            for (const StepBatch& part : parts) {
              ASSERT_EQ(part.micro_batches.size(), parts[0].micro_batches.size());
              ASSERT_LE(part.micro_batches.size(), 2u);
              ASSERT_EQ(part.position_after, parts[0].position_after);
              ASSERT_EQ(part.valid_targets, parts[0].valid_targets);
              for (const MicroBatch& batch : part.micro_batches) {
                ASSERT_LE(batch.tokens.size(0), micro);
                valid += batch.targets.ne(kIgnoreIndex).sum().item<int64_t>();
                for (const int64_t sample : samples_of(batch))
                  if (sample >= 0) seen.push_back(sample);
              }
            }
            ASSERT_EQ(valid, parts[0].valid_targets);
            at = parts[0].position_after;
          }
          EXPECT_EQ(seen, expected);  // in the order, too: ranks take contiguous runs
          EXPECT_EQ(steps, steps_per_epoch(extent_of(*dataset), micro * 2 * world));
        }
      }
    }
  }
}

TEST(TrainLoader, GivesTheSameBatchesWithAnyNumberOfWorkers) {
  FakeDevice device;
  const auto dataset = numbered(23, 5);
  const auto plain = loader_for(dataset, device, {.accumulation = 2, .workers = 0});
  std::vector<std::unique_ptr<DataLoader>> threaded;
  for (const int64_t workers : {1, 2, 5}) {
    for (const int64_t prefetch : {1, 4})
      threaded.push_back(loader_for(dataset, device,
                                    {.accumulation = 2, .workers = workers, .prefetch = prefetch}));
  }
  for (int step = 0; step < 40; ++step) {
    const StepBatch expected = plain->next();
    for (const auto& loader : threaded) expect_same_step(loader->next(), expected);
  }
}

TEST(TrainLoader, ContinuesExactlyFromAnySavedPosition) {
  FakeDevice device;
  const auto dataset = numbered(11, 5);
  for (const int64_t workers : {0, 2}) {
    for (const WorldShape world : {WorldShape{1, 0}, WorldShape{2, 1}}) {
      const LoaderSetting setting = {
          .micro_batch_size = 1, .accumulation = 2, .world = world, .workers = workers};
      const auto straight = loader_for(dataset, device, setting);
      std::vector<StepBatch> steps;
      for (int i = 0; i < 25; ++i) steps.push_back(straight->next());
      const auto resumed = loader_for(dataset, device, setting);
      for (size_t stop = 0; stop + 3 < steps.size(); ++stop) {  // also ends of epochs
        resumed->seek(steps[stop].position_after);
        for (size_t next = stop + 1; next < stop + 4; ++next)
          expect_same_step(resumed->next(), steps[next]);
      }
    }
  }
}

TEST(TrainLoader, TakesTheEndOfAnEpochAsTheBeginningOfTheNext) {
  FakeDevice device;
  const auto loader = loader_for(numbered(6), device, {});
  loader->seek({2, 6});
  const StepBatch end = loader->next();
  loader->seek({3, 0});
  expect_same_step(loader->next(), end);
}

TEST(TrainLoader, RefusesAPositionThatIsNotInTheData) {
  FakeDevice device;
  const auto loader = loader_for(numbered(6), device, {});
  for (const DataPosition position :
       {DataPosition{0, 7}, DataPosition{0, -1}, DataPosition{-1, 0}}) {
    try {
      loader->seek(position);
      ADD_FAILURE();
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_THAT(error.what(), testing::HasSubstr("--resume never"));
    }
  }
}

TEST(TrainLoader, HandsOnLabelsPerSequence) {
  FakeDevice device;
  const auto dataset = numbered(5, 0, /*per_sequence=*/true);
  for (const int64_t rank : {0, 1}) {
    const auto loader = loader_for(dataset, device, {.world = {2, rank}, .shuffle = false});
    const StepBatch step = loader->next();
    EXPECT_EQ(step.micro_batches[0].targets.sizes(), (at::IntArrayRef{2}));
    EXPECT_EQ(step.micro_batches[0].targets[1].item<int64_t>(), 2 * rank + 1);
    EXPECT_EQ(step.valid_targets, 4);
    const StepBatch last = loader->next();
    EXPECT_EQ(last.micro_batches[0].targets[0].item<int64_t>(), rank == 0 ? 4 : kIgnoreIndex);
    EXPECT_EQ(last.valid_targets, 1);
  }
}

TEST(TrainLoader, ThrowsWhatAWorkerThrew) {
  FakeDevice device;
  const auto dataset = numbered(10);
  dataset->failing_sample = 5;
  for (const int64_t workers : {0, 2}) {
    const auto loader = loader_for(dataset, device, {.shuffle = false, .workers = workers});
    loader->next();
    loader->next();
    EXPECT_THROW(loader->next(), std::runtime_error);
    loader->seek({0, 6});  // and goes on where it is told to
    EXPECT_EQ(samples_of(loader->next()), (Samples{{6, 7}}));
  }
}

TEST(TrainLoader, OverfitsTheFirstBatchWhereverItIsTold) {
  FakeDevice device;
  const auto dataset = numbered(10);
  const StepBatch first = loader_for(dataset, device, {})->next();
  const auto loader = loader_for(dataset, device, {.workers = 1, .overfit_one_batch = true});
  for (int i = 0; i < 8; ++i) expect_same_step(loader->next(), first);
  loader->seek({3, 2});
  expect_same_step(loader->next(), first);
}

}  // namespace
}  // namespace trainctl
