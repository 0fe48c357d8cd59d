#include "trainctl/plan/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using testing::HasSubstr;

TEST(Capacity, CountsWeightsGradientsAndTheOptimizersMoments) {
  OptimizerConfig optimizer;
  EXPECT_EQ(training_state_bytes(optimizer, 1000), 16000U);
  optimizer.type = OptimizerType::kSgd;
  EXPECT_EQ(training_state_bytes(optimizer, 1000), 12000U);
  optimizer.momentum = 0;
  EXPECT_EQ(training_state_bytes(optimizer, 1000), 8000U);
}

TEST(Capacity, RefusesAModelLargerThanTheMemoryNamingBothSizes) {
  const Config config;
  EXPECT_NO_THROW(require_memory(config, 1000, 16000));
  EXPECT_NO_THROW(require_memory(config, 1000, 0));
  EXPECT_NO_THROW(require_memory(config, 1000, 32000, 2));
  EXPECT_THROW(require_memory(config, 1000, 16000, 2), UserError);
  try {
    require_memory(config, int64_t{1} << 30, uint64_t{8} << 30);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("16.0 GiB"));
    EXPECT_THAT(error.what(), HasSubstr("8.0 GiB"));
  }
}

TEST(Capacity, RefusesADiskWithoutRoomForACheckpoint) {
  const OptimizerConfig optimizer;
  Config config;
  EXPECT_EQ(disk_warning("/tmp", config, 1000, 0), "");
  EXPECT_THAT(disk_warning("/tmp", config, int64_t{1} << 50, 0),
              testing::HasSubstr("4 more checkpoints"));
  EXPECT_THAT(disk_warning("/tmp", config, int64_t{1} << 50, 3),
              testing::HasSubstr("1 more checkpoints"));
  EXPECT_NO_THROW(require_disk("/tmp", optimizer, 1000));
  EXPECT_THROW(require_disk("/tmp", optimizer, int64_t{1} << 50), UserError);
}

TEST(Capacity, TheCopyForSavingIsSharedByTheRanks) {
  Config config;
  EXPECT_EQ(checkpoint_bytes(config.optimizer, 1000), 12000U);
  EXPECT_EQ(checkpoint_copy_bytes(config, 1000, 1), 12000U);
  EXPECT_EQ(checkpoint_copy_bytes(config, 1000, 5), 2400U);
  config.checkpoint.interval = {};
  EXPECT_EQ(checkpoint_copy_bytes(config, 1000, 1), 0U);
  config.checkpoint.interval.steps = 5;
  config.checkpoint.async = false;
  EXPECT_EQ(checkpoint_copy_bytes(config, 1000, 1), 0U);
}

}  // namespace
}  // namespace trainctl
