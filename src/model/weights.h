// The weights of a Transformer block as handles to the tensors in Model::parameters(), grouped as
// the blocks use them. An undefined bias means that the layer has none.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace trainctl {

struct LinearWeights {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out], or undefined
};

struct NormWeights {
  at::Tensor weight, bias;  // [d_model]; bias may be undefined
};

struct BlockWeights {
  LinearWeights qkv;  // rows: all of q, then k, then v, each heads × head width
  LinearWeights attention_out;
  LinearWeights mlp_up;  // SwiGLU: rows of the gate, then of the value
  LinearWeights mlp_down;
  NormWeights norm1, norm2;  // of the attention and of the MLP branch
};

inline std::optional<at::Tensor> optional_tensor(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

}  // namespace trainctl
