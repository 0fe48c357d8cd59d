// The stack of blocks that both models share.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/rotary.h"
#include "model/weights.h"
#include "trainctl/config/config.h"

namespace trainctl {

struct StackOptions {
  int64_t n_heads = 1;
  NormOrder norm_order = NormOrder::kPre;
  Activation activation = Activation::kGelu;
  double norm_eps = 1e-5;
  bool causal = true;
  bool fused = true;  // take the fused operations (model/ops) where they serve
  // Rates; zero outside training.
  double attention_dropout = 0, residual_dropout = 0, activation_dropout = 0;
};

// `final_norm` follows the last block of a pre-norm stack, unless its weight is undefined; a
// post-norm stack ends with a norm of its own.
at::Tensor transformer_stack(const at::Tensor& x_btd, const std::vector<BlockWeights>& blocks,
                             const NormWeights& final_norm, const StackOptions& options,
                             const RotaryAngles& angles);

}  // namespace trainctl
