// One Transformer block as a single node of the autograd graph, for the CPU.
#pragma once

#include <ATen/ATen.h>

#include "model/transformer_stack.h"
#include "model/weights.h"

namespace trainctl::ops {

// Whether block() serves this shape under the current autocast state; the plain operations serve
// everything.
bool serves_block(const at::Tensor& x_btd, const BlockWeights& block, const StackOptions& options,
                  bool rotary);

// The block's output from its input, both fp32: residual sums, norms, attention and MLP. Under bf16
// autocast products and what lies between them are bf16, the residual stream fp32.
at::Tensor block(const at::Tensor& x_btd, const BlockWeights& block, const StackOptions& options);

}  // namespace trainctl::ops
