// tests/reference/optimizer_test.py holds norm and clipping against torch.nn.utils.clip_grad_norm_.
#include "trainctl/train/clip.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainctl {
namespace {

std::vector<at::Tensor> clip_test_grads() {
  at::manual_seed(3);
  return {at::randn({7, 5}), at::randn({100003}), at::randn({64, 1024}).t(), at::randn({})};
}

double norm_in_fp64(const std::vector<at::Tensor>& grads) {
  double sum = 0;
  for (const at::Tensor& grad : grads) sum += grad.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

TEST(GradientNorm, IsTheNormOfAllGradientsTogether) {
  const std::vector<at::Tensor> grads = clip_test_grads();
  EXPECT_NEAR(gradient_norm(grads).item<double>() / norm_in_fp64(grads), 1.0, 1e-6);
}

TEST(GradientNorm, TakesTensorsThatAreNoPlainArrays) {
  std::vector<at::Tensor> grads = clip_test_grads();
  const std::vector<at::Tensor> gaps = {grads[2].slice(0, 0, 1024, 3)};
  EXPECT_NEAR(gradient_norm(gaps).item<double>() / norm_in_fp64(gaps), 1.0, 1e-6);
  const std::vector<at::Tensor> half = {grads[0].to(at::kBFloat16)};
  EXPECT_NEAR(gradient_norm(half).item<double>() / norm_in_fp64(half), 1.0, 1e-2);
}

TEST(GradientNorm, OfNothingIsZero) { EXPECT_EQ(gradient_norm({}).item<double>(), 0.0); }

TEST(GradientNorm, DoesNotDependOnTheNumberOfThreads) {
  const std::vector<at::Tensor> grads = clip_test_grads();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const float alone = gradient_norm(grads).item<float>();
  at::set_num_threads(3);
  const float together = gradient_norm(grads).item<float>();
  at::set_num_threads(threads);
  EXPECT_EQ(alone, together);
}

TEST(GradientNorm, IsNotFiniteIfOneElementIsNot) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (const int64_t position : {0, 50000, 100002}) {
      const std::vector<at::Tensor> grads = clip_test_grads();
      grads[1][position].fill_(bad);
      EXPECT_FALSE(std::isfinite(gradient_norm(grads).item<double>())) << bad << position;
    }
  }
}

TEST(ClipDivisor, BringsLongerGradientsDownToTheNorm) {
  const std::vector<at::Tensor> grads = clip_test_grads();
  const at::Tensor divisor = clip_divisor(gradient_norm(grads), 0.1);
  for (const at::Tensor& grad : grads) grad.div_(divisor);
  EXPECT_NEAR(norm_in_fp64(grads), 0.1, 1e-6);
}

TEST(ClipDivisor, LeavesShorterGradientsAlone) {
  EXPECT_EQ(clip_divisor(gradient_norm(clip_test_grads()), 1e6).item<double>(), 1.0);
}

TEST(ClipDivisor, IsUndefinedWithoutALimit) {
  EXPECT_FALSE(clip_divisor(at::ones({}), 0).defined());
}

}  // namespace
}  // namespace trainctl
