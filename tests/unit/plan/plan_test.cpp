#include "trainctl/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/testing.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using testing::HasSubstr;

TrainingConfig training(int64_t micro, int64_t global, std::optional<int64_t> accumulation = {}) {
  TrainingConfig config;
  config.micro_batch_size = micro;
  config.global_batch_size = global;
  config.gradient_accumulation_steps = accumulation;
  return config;
}

Config run_config() {
  Config config;
  config.data.seq_len = 10;
  config.training = training(2, 4);
  config.lr_scheduler.type = ScheduleType::kConstant;
  return config;
}

std::string refused_batches(const TrainingConfig& config, int64_t ranks) {
  return refusal_of(ExitCode::kUsage, [&] { plan_batches(config, 10, {ranks, 0}); });
}

int64_t total_steps(const Config& config, const DataExtent& extent) {
  return make_plan(config, extent, {1, 0}).total_steps;
}

TEST(PlanBatches, DerivesAccumulationFromTheGlobalBatch) {
  const BatchPlan plan = plan_batches(training(2, 24), 10, {3, 0});
  EXPECT_EQ(plan.gradient_accumulation_steps, 4);
  EXPECT_EQ(plan.tokens_per_step, 240);
}

TEST(PlanBatches, DerivesTheGlobalBatchFromAccumulation) {
  EXPECT_EQ(plan_batches(training(2, 0, 5), 10, {3, 0}).global_batch_size, 30);
  EXPECT_EQ(plan_batches(training(2, 0), 10, {3, 0}).global_batch_size, 6);
}

TEST(PlanBatches, RefusesADisagreeingAccumulation) {
  const std::string message = refused_batches(training(2, 24, 3), 3);
  EXPECT_THAT(message, HasSubstr("gradient_accumulation_steps 3"));
  EXPECT_THAT(message, HasSubstr("takes 4"));
  EXPECT_EQ(plan_batches(training(2, 24, 4), 10, {3, 0}).gradient_accumulation_steps, 4);
}

TEST(PlanBatches, RefusesAGlobalBatchThatDoesNotDivideAndNamesOnesThatDo) {
  const std::string message = refused_batches(training(4, 18), 2);
  EXPECT_THAT(message, HasSubstr("global_batch_size to 16 or 24"));
  EXPECT_THAT(message, HasSubstr("micro_batch_size to 9"));
  // Too small for one micro-batch on every rank: there is none below.
  EXPECT_THAT(refused_batches(training(4, 6), 2), HasSubstr("global_batch_size to 8, or"));
  // Not even divisible by the ranks: no micro-batch helps.
  EXPECT_THAT(refused_batches(training(1, 5), 2), testing::Not(HasSubstr("or micro_batch_size")));
}

TEST(PlanBatches, RefusesZeroAccumulation) {
  EXPECT_THAT(refused_batches(training(2, 4, 0), 1), HasSubstr("gradient_accumulation_steps is 0"));
  EXPECT_THAT(refused_batches(training(0, 4), 1), HasSubstr("micro_batch_size is 0"));
}

TEST(StepsPerEpoch, CountsTheBatchLeftOverAndTheShorterWindow) {
  EXPECT_EQ(steps_per_epoch({8, 80, 0}, 4), 2);
  EXPECT_EQ(steps_per_epoch({9, 90, 0}, 4), 3);   // one full window left over
  EXPECT_EQ(steps_per_epoch({9, 83, 3}, 4), 3);   // two batches, then the shorter one
  EXPECT_EQ(steps_per_epoch({10, 93, 3}, 4), 4);  // two batches, one window, the shorter one
}

TEST(MakePlan, TakesTheLimitThatComesFirst) {
  const DataExtent extent = {10, 93, 3};  // steps of 40, 40, 10 and 3 tokens
  Config config = run_config();
  config.training.max_steps = 100;
  EXPECT_EQ(total_steps(config, extent), 100);
  config.training.epochs = 2;
  EXPECT_EQ(total_steps(config, extent), 8);
  config.training.max_tokens = 80;
  EXPECT_EQ(total_steps(config, extent), 2);
  config.training.max_steps = 1;
  EXPECT_EQ(total_steps(config, extent), 1);
}

TEST(MakePlan, CountsTokensAsTheStepsOfAnEpochHoldThem) {
  const DataExtent extent = {10, 93, 3};
  Config config = run_config();
  const auto steps = [&](int64_t max_tokens) {
    config.training.max_tokens = max_tokens;
    return total_steps(config, extent);
  };
  // After each step of two epochs: 40, 80, 90, 93, 133, 173, 183, 186.
  EXPECT_EQ(steps(1), 1);
  EXPECT_EQ(steps(40), 1);
  EXPECT_EQ(steps(41), 2);
  EXPECT_EQ(steps(81), 3);
  EXPECT_EQ(steps(90), 3);
  EXPECT_EQ(steps(91), 4);
  EXPECT_EQ(steps(93), 4);
  EXPECT_EQ(steps(94), 5);
  EXPECT_EQ(steps(186), 8);
}

TEST(MakePlan, AcceptsFractionsOfAnEpoch) {
  Config config = run_config();
  const DataExtent extent = {120, 1200, 0};  // 30 steps
  config.training.epochs = 0.1;              // 0.1 × 30 is a little more than 3 in binary
  EXPECT_EQ(total_steps(config, extent), 3);
  config.training.epochs = 1.01;
  EXPECT_EQ(total_steps(config, extent), 31);
  config.training.epochs = 1e-6;
  EXPECT_EQ(total_steps(config, extent), 1);
}

TEST(MakePlan, LeavesTheLengthOpenWhenOnlyTimeLimits) {
  Config config = run_config();
  config.training.max_time = 60;
  EXPECT_EQ(total_steps(config, {10, 100, 0}), 0);
}

TEST(MakePlan, RefusesASchedulePlannedForAnUnknownLength) {
  Config config = run_config();
  config.training.max_time = 60;
  const auto refused = [&] {
    return refusal_of(ExitCode::kUsage, [&] { make_plan(config, {10, 100, 0}, {1, 0}); });
  };
  config.lr_scheduler.type = ScheduleType::kCosine;
  EXPECT_THAT(refused(), HasSubstr("lr_scheduler.type"));
  config.lr_scheduler.type = ScheduleType::kConstant;
  config.lr_scheduler.warmup_ratio = 0.1;
  EXPECT_THAT(refused(), HasSubstr("lr_scheduler.warmup_steps"));
}

TEST(MakePlan, RefusesARunWithoutLimitAndDataWithoutASequence) {
  Config config = run_config();
  EXPECT_THAT(refusal_of(ExitCode::kUsage,
                         [&] {
                           make_plan(config, {10, 100, 0}, {1, 0});
                         }),
              HasSubstr("training.max_steps"));
  config.training.max_steps = 1;
  EXPECT_THAT(refusal_of(ExitCode::kData,
                         [&] {
                           make_plan(config, {0, 0, 0}, {1, 0});
                         }),
              HasSubstr("data.seq_len 10"));
}

TEST(MakePlan, WarnsAboutAWarmUpAsLongAsTheRun) {
  Config config = run_config();
  config.training.max_steps = 5;
  config.lr_scheduler.warmup_steps = 5;
  const RunPlan plan = make_plan(config, {10, 100, 0}, {1, 0});
  EXPECT_EQ(plan.warmup_steps, 5);
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_THAT(plan.warnings[0], HasSubstr("warm-up of 5"));
  config.lr_scheduler.warmup_steps = 4;
  EXPECT_TRUE(make_plan(config, {10, 100, 0}, {1, 0}).warnings.empty());
}

TEST(MakePlan, NamesTheRunDirectory) {
  Config config = run_config();
  config.training.max_steps = 1;
  config.run.output_dir = "out";
  config.run.name = "mini";
  EXPECT_EQ(make_plan(config, {10, 100, 0}, {1, 0}).run_dir, "out/mini");
}

TEST(CountParameters, MatchesGpt2) {
  ModelConfig model;  // GPT-2 small as published: 124,439,808
  model.vocab_size = 50257;
  model.d_model = 768;
  model.n_layers = 12;
  model.n_heads = 12;
  model.d_ff = 3072;
  model.max_seq_len = 1024;
  EXPECT_EQ(count_parameters(model), 124439808);
  model.tie_embeddings = false;
  EXPECT_EQ(count_parameters(model), 124439808 + 50257 * 768);
}

TEST(CountParameters, FollowsTheOptionsOfGpt) {
  ModelConfig model;
  model.vocab_size = 11;
  model.d_model = 4;
  model.n_layers = 1;
  model.n_heads = 2;
  model.d_ff = 6;
  model.max_seq_len = 5;
  model.bias = false;
  model.position = PositionType::kRotary;
  model.activation = Activation::kSwiglu;
  // embedding 44, attention 48 + 16, gate and value 48, down 24, two norms and the final one 12
  EXPECT_EQ(count_parameters(model), 44 + 64 + 72 + 12);
  model.norm_order = NormOrder::kPost;
  EXPECT_EQ(count_parameters(model), 44 + 64 + 72 + 8);
}

TEST(CountParameters, MatchesTheReferenceEncoder) {
  ModelConfig model;
  model.type = ModelType::kEncoderClassifier;
  model.vocab_size = 30522;
  model.d_model = 256;
  model.n_layers = 4;
  model.n_heads = 8;
  model.d_ff = 1024;
  model.max_seq_len = 512;
  model.norm_order = NormOrder::kPost;
  // torch.nn: four TransformerEncoderLayer(256, 8, 1024) of 789,760 each.
  EXPECT_EQ(count_parameters(model), 30522 * 256 + 512 * 256 + 4 * 789760 + 257 * 30522);
  model.n_classes = 3;
  EXPECT_EQ(count_parameters(model), 30522 * 256 + 512 * 256 + 4 * 789760 + 257 * 3);
}

TEST(VaryingShapes, NamesTheStepsThatDifferOnlyWhenBenchmarkIsOn) {
  Config config;
  config.backend.cudnn_benchmark = true;
  BatchPlan batch;
  batch.global_batch_size = 4;
  EXPECT_EQ(varying_shapes(config, {8, 64, 0}, batch), "");
  EXPECT_THAT(varying_shapes(config, {10, 80, 0}, batch), testing::HasSubstr("has 2 sequences."));
  EXPECT_THAT(varying_shapes(config, {9, 70, 6}, batch),
              testing::HasSubstr(": one a window of 6 tokens"));
  config.backend.cudnn_benchmark = false;
  EXPECT_EQ(varying_shapes(config, {10, 80, 6}, batch), "");
}

}  // namespace
}  // namespace trainctl
