// Matrix products on the CPU, outside autograd and autocast.
#pragma once

#include <ATen/ATen.h>

namespace trainctl::ops {

// A matrix as it lies in memory, rows contiguous up to a stride; `transposed` as it enters the
// product.
struct Factor {
  const at::Tensor& tensor;  // any shape whose last dimension is the row
  bool transposed = false;
};
inline Factor plain(const at::Tensor& tensor) { return {tensor, false}; }
inline Factor transposed(const at::Tensor& tensor) { return {tensor, true}; }

// out (+)= a b (+ bias, fp32, in each row, unless undefined). Factors are both fp32 or both bf16,
// out either type of theirs or fp32; only fp32 accumulates. The sums are fp32.
void product(const Factor& a, const Factor& b, const at::Tensor& out, bool accumulate = false);
void product(const Factor& a, const Factor& b, const at::Tensor& bias, const at::Tensor& out);

// Whether products of this type run on instructions of this processor made for it.
bool fast_products(at::ScalarType dtype);

}  // namespace trainctl::ops
