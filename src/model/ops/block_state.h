// What a block's forward pass leaves for its backward pass.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <bitset>

#include "model/ops/kernels/kernels.h"
#include "model/transformer_stack.h"

namespace trainctl::ops {

// The order in which a block's parameters enter the graph, and their gradients leave it.
enum BlockParameter : size_t {
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kNorm1Weight,
  kNorm1Bias,
  kNorm2Weight,
  kNorm2Bias,
  kBlockParameters,
};

// Shape suffixes: n rows (batch × time), d model width, f feed-forward width, h heads, t time.
// Without a type in the name: the type of activations, fp32 or, under autocast, bf16.
struct BlockState : torch::CustomClassHolder {
  StackOptions options;
  std::bitset<kBlockParameters> has_parameter;
  kernels::ActivationKind activation = kernels::ActivationKind::kGelu;
  kernels::Dropout attention_dropout, attention_out_dropout, hidden_dropout, down_dropout;
  int64_t batch = 0, time = 0, width = 0, hidden = 0;

  at::Tensor qkv_w, out_w, up_w, down_w;  // in the type of activations
  at::Tensor attention_in_nd;             // what the q, k, v projection read
  at::Tensor qkv_n3d, log_sum_bht, heads_nd;
  at::Tensor sum1_nd, mean1_n, rstd1_n;  // the first norm's input (post-norm: after the attention)
  at::Tensor mlp_in_nd, up_nf, hidden_nf;
  at::Tensor sum2_nd, mean2_n, rstd2_n;

  int64_t rows() const { return batch * time; }
};

}  // namespace trainctl::ops
