// The output head and its cross-entropy as one node, for the CPU.
#pragma once

#include <ATen/ATen.h>

#include "model/weights.h"

namespace trainctl::ops {

bool serves_head(const at::Tensor& features, const LinearWeights& head);

// As plain::head_cross_entropy_sum. Logits exist for a chunk of rows at a time, and their gradient
// takes their place at once: the products that need it run in the forward pass.
at::Tensor head_cross_entropy_sum(const at::Tensor& features, const LinearWeights& head,
                                  const at::Tensor& targets, double label_smoothing);

}  // namespace trainctl::ops
