// What is in a tensor, in a few numbers; and how far two are apart. In pieces: tensors may be
// larger than memory.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace trainctl {

struct TensorStatistics {
  double min = 0, max = 0, mean = 0, norm = 0;  // over the finite elements; 0 where there is none
  int64_t nan_count = 0, infinite_count = 0;
};
TensorStatistics statistics_of(const at::Tensor& tensor);

struct TensorDifference {
  bool bitwise = false;
  double max_abs = 0;
  double relative = 0;  // ‖a − b‖ / ‖a‖; infinite where only a is zero
  // Elements of which at least one is not finite and that do not agree: in none of the numbers.
  int64_t nonfinite = 0;
};
TensorDifference difference_of(const at::Tensor& a, const at::Tensor& b);  // of the same shape

}  // namespace trainctl
