#pragma once

#include "model/ops/block_state.h"

namespace trainctl::ops {

// Fills `state` and returns the block's output. T: float or kernels::Bf16.
template <typename T>
at::Tensor block_forward(const at::Tensor& x_nd, at::TensorList weights, BlockState* state);

// The gradients of the input and of the parameters, in the order of BlockParameter.
template <typename T>
std::vector<at::Tensor> block_backward(const at::Tensor& out_grad_nd, const at::Tensor& x_nd,
                                       at::TensorList weights, const BlockState& state);

}  // namespace trainctl::ops
