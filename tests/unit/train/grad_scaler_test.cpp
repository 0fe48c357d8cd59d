// tests/reference/scaler_test.py holds whole traces against torch.amp.GradScaler.
#include "trainctl/train/grad_scaler.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

GradScalerConfig scaler_config(Toggle enabled, bool dynamic = true) {
  GradScalerConfig config;
  config.enabled = enabled;
  config.dynamic = dynamic;
  config.init_scale = 8;
  config.growth_interval = 2;
  return config;
}

// One step whose gradient is `value` before scaling.
void scaler_step(GradScaler& scaler, double value) {
  const std::vector<at::Tensor> grads = {scaler.scale(at::full({3}, value))};
  scaler.unscale(grads);
  scaler.guard(grads[0].norm());
  scaler.update();
}

TEST(GradScaler, IsOnForFp16OrWhenAskedFor) {
  EXPECT_TRUE(GradScaler(scaler_config(Toggle::kAuto), Dtype::kFp16, at::kCPU).enabled());
  EXPECT_FALSE(GradScaler(scaler_config(Toggle::kAuto), Dtype::kBf16, at::kCPU).enabled());
  EXPECT_FALSE(GradScaler(scaler_config(Toggle::kOff), Dtype::kFp16, at::kCPU).enabled());
  EXPECT_TRUE(GradScaler(scaler_config(Toggle::kOn), Dtype::kFp32, at::kCPU).enabled());
}

TEST(GradScaler, ScalesTheLossAndUnscalesTheGradients) {
  GradScaler scaler(scaler_config(Toggle::kOn), Dtype::kFp16, at::kCPU);
  const at::Tensor grad = scaler.scale(at::full({2}, 3.0));
  EXPECT_EQ(grad[0].item<double>(), 24.0);
  scaler.unscale({grad});
  EXPECT_EQ(grad[0].item<double>(), 3.0);
  EXPECT_EQ(scaler.found_inf().item<double>(), 0.0);
}

TEST(GradScaler, GrowsAfterTheIntervalAndBacksOff) {
  GradScaler scaler(scaler_config(Toggle::kOn), Dtype::kFp16, at::kCPU);
  scaler_step(scaler, 1);
  EXPECT_EQ(scaler.current_scale(), 8.0);
  scaler_step(scaler, 1);
  EXPECT_EQ(scaler.current_scale(), 16.0);
  scaler_step(scaler, 1);
  scaler_step(scaler, kInfinity);
  EXPECT_EQ(scaler.found_inf().item<double>(), 1.0);
  EXPECT_EQ(scaler.current_scale(), 8.0);
  EXPECT_EQ(scaler.state().growth_tracker, 0);
}

TEST(GradScaler, KeepsAFixedScaleButStillReportsInfinities) {
  GradScaler scaler(scaler_config(Toggle::kOn, /*dynamic=*/false), Dtype::kFp16, at::kCPU);
  for (int i = 0; i < 5; ++i) scaler_step(scaler, 1);
  EXPECT_EQ(scaler.found_inf().item<double>(), 0.0);
  scaler_step(scaler, kInfinity);
  EXPECT_EQ(scaler.found_inf().item<double>(), 1.0);
  EXPECT_EQ(scaler.current_scale(), 8.0);
}

TEST(GradScaler, GuardsAgainstNonFiniteGradientsWhenDisabled) {
  GradScaler scaler(scaler_config(Toggle::kOff), Dtype::kFp32, at::kCPU);
  const at::Tensor loss = at::ones({});
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  scaler_step(scaler, 1);
  EXPECT_EQ(scaler.found_inf().item<double>(), 0.0);
  const at::Tensor earlier = scaler.found_inf();
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    scaler_step(scaler, bad);
    EXPECT_EQ(scaler.found_inf().item<double>(), 1.0) << bad;
  }
  EXPECT_EQ(earlier.item<double>(), 0.0) << "a step's flag must not change with later steps";
  scaler_step(scaler, 1);
  EXPECT_EQ(scaler.found_inf().item<double>(), 0.0);
  EXPECT_EQ(scaler.current_scale(), 1.0);
}

TEST(GradScaler, ContinuesFromItsState) {
  GradScaler first(scaler_config(Toggle::kOn), Dtype::kFp16, at::kCPU);
  for (int i = 0; i < 3; ++i) scaler_step(first, 1);
  GradScaler second(scaler_config(Toggle::kOn), Dtype::kFp16, at::kCPU);
  second.load_state(first.state());
  scaler_step(second, 1);
  EXPECT_EQ(second.current_scale(), 32.0);
}

}  // namespace
}  // namespace trainctl
