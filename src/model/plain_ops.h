// The operations a model is made of, each a few ATen calls that autograd differentiates. They are
// the one place to exchange for faster versions, and what those are tested against.
//
// Shape suffixes: b batch, t time, d model width, f feed-forward width, h heads.
#pragma once

#include <ATen/ATen.h>

#include <utility>

#include "model/rotary.h"
#include "model/weights.h"
#include "trainctl/config/config.h"

namespace trainctl::plain {

at::Tensor linear(const at::Tensor& x, const LinearWeights& w);

// activation(linear(x)). SwiGLU: silu(gate) · value, where linear gives both side by side.
at::Tensor linear_activation(const at::Tensor& x_btd, const LinearWeights& up,
                             Activation activation);

at::Tensor layer_norm(const at::Tensor& x_btd, const NormWeights& norm, double eps);

// x + branch, and its norm: what stands between two branches.
std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x_btd, const at::Tensor& branch_btd,
                                           const NormWeights& norm, double eps);

// Multi-head attention from the fused projection qkv_bt3d to the heads' joined output, before the
// output projection.
at::Tensor attention(const at::Tensor& qkv_bt3d, int64_t n_heads, const RotaryAngles& angles,
                     bool causal, double dropout);

// Rows of the token table, plus the first rows of the position table when it is defined.
at::Tensor embed(const at::Tensor& tokens_bt, const at::Tensor& token_table,
                 const at::Tensor& position_table);

at::Tensor dropout(const at::Tensor& x, double p);  // x itself at p = 0

// Sum over valid targets of the cross-entropy of the head's logits, in fp32 also where the head
// computes in 16 bits.
at::Tensor head_cross_entropy_sum(const at::Tensor& features, const LinearWeights& head,
                                  const at::Tensor& targets, double label_smoothing);

}  // namespace trainctl::plain
