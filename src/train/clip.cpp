#include "trainctl/train/clip.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace trainctl {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_

constexpr int64_t kNormBlock = 16384;  // elements whose squares are summed in fp32 lanes

double block_sum_of_squares(const float* values, int64_t count) {
  // Separate lanes let the compiler vectorise what it may not reorder by itself.
  constexpr int64_t kLanes = 32;
  std::array<float, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      lanes[static_cast<size_t>(lane)] += value * value;
    }
  }
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

double sum_of_squares(const at::Tensor& grad) {
  const float* values = grad.const_data_ptr<float>();
  const int64_t count = grad.numel();
  const int64_t blocks = (count + kNormBlock - 1) / kNormBlock;
  if (blocks <= 1) return block_sum_of_squares(values, count);
  std::vector<double> sums(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, /*grain_size=*/4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kNormBlock;
      sums[static_cast<size_t>(b)] =
          block_sum_of_squares(values + first, std::min(kNormBlock, count - first));
    }
  });
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

// Dense storage of fp32 on the CPU, in whatever order of dimensions: a sum does not mind.
bool readable_as_array(const at::Tensor& grad) {
  return grad.device().is_cpu() && grad.scalar_type() == at::kFloat &&
         grad.is_non_overlapping_and_dense();
}

}  // namespace

at::Tensor gradient_norm(const std::vector<at::Tensor>& grads) {
  const at::NoGradGuard no_grad;
  if (grads.empty()) return at::zeros({}, at::kFloat);
  if (std::all_of(grads.begin(), grads.end(), readable_as_array)) {
    // ATen's norm costs a dispatch and a reduction per tensor, which shows in small models.
    double sum = 0;
    for (const at::Tensor& grad : grads) sum += sum_of_squares(grad);
    return at::scalar_tensor(std::sqrt(sum), at::kFloat);
  }
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(grads, 2)), 2);
}

at::Tensor clip_divisor(const at::Tensor& norm, double max_norm) {
  if (max_norm <= 0) return {};
  const at::NoGradGuard no_grad;
  return norm.add(kClipEpsilon).div_(max_norm).clamp_min_(1.0);
}

}  // namespace trainctl
