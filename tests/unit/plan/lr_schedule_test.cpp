// Values by hand; tests/reference/schedule_test.py holds every schedule against PyTorch's
// schedulers.
#include "trainctl/plan/lr_schedule.h"

#include <gtest/gtest.h>

namespace trainctl {
namespace {

LrSchedulerConfig schedule(ScheduleType type, double min_rate = 0) {
  LrSchedulerConfig config;
  config.type = type;
  config.min_learning_rate = min_rate;
  return config;
}

TEST(LearningRate, WarmsUpLinearlyAndReachesTheBaseAtItsLastStep) {
  for (const ScheduleType type :
       {ScheduleType::kConstant, ScheduleType::kLinear, ScheduleType::kCosine,
        ScheduleType::kInverseSqrt, ScheduleType::kWarmupStableDecay}) {
    const LrSchedulerConfig config = schedule(type, 0.1);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 2.0, 0, 20, 4), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 2.0, 1, 20, 4), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 2.0, 3, 20, 4), 2.0);
  }
}

TEST(LearningRate, LinearFallsFromBaseTowardsMin) {
  const LrSchedulerConfig config = schedule(ScheduleType::kLinear, 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 2, 10, 2), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 6, 10, 2), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 10, 10, 2), 0.2);
}

TEST(LearningRate, CosineIsHalfWayInTheMiddle) {
  const LrSchedulerConfig config = schedule(ScheduleType::kCosine, 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 0, 8, 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 4, 8, 0), 0.6);
}

TEST(LearningRate, InverseSqrtContinuesFromTheWarmUpAndStopsAtMin) {
  const LrSchedulerConfig config = schedule(ScheduleType::kInverseSqrt, 0.3);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 15, 0, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 399, 0, 4), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 0, 0, 0), 1.0);
}

TEST(LearningRate, WarmupStableDecayHoldsAndThenFalls) {
  LrSchedulerConfig config = schedule(ScheduleType::kWarmupStableDecay);
  config.decay_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 15, 20, 2), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 16, 20, 2), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 17, 20, 2), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 19, 20, 2), 0.25);
  config.decay_steps = 0;
  config.decay_ratio = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 15, 20, 2), 0.5);
}

TEST(LearningRate, StaysAtMinAfterTheEnd) {
  for (const ScheduleType type :
       {ScheduleType::kLinear, ScheduleType::kCosine, ScheduleType::kWarmupStableDecay}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(type, 0.1), 1.0, 25, 20, 2), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(type, 0.1), 1.0, 7, 5, 5), 0.1);
  }
}

TEST(LearningRate, WarmUpRatioCountsAllSteps) {
  LrSchedulerConfig config = schedule(ScheduleType::kConstant);
  config.warmup_ratio = 0.06;
  EXPECT_EQ(planned_warmup_steps(config, 100), 6);
  EXPECT_EQ(planned_warmup_steps(config, 1), 0);
  config.warmup_ratio = 0;
  config.warmup_steps = 7;
  EXPECT_EQ(planned_warmup_steps(config, 100), 7);
}

TEST(LearningRate, DecayIsShortenedToWhatTheWarmUpLeaves) {
  LrSchedulerConfig config = schedule(ScheduleType::kWarmupStableDecay);
  config.decay_steps = 50;
  EXPECT_EQ(planned_decay_steps(config, 20, 5), 15);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1.0, 5, 20, 5), 1.0);
}

}  // namespace
}  // namespace trainctl
