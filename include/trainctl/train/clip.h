// Gradient clipping by the norm over all gradients, as torch.nn.utils.clip_grad_norm_.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace trainctl {

// 2-norm of all gradients together, an fp32 device scalar. Sums of squares are combined over fixed
// blocks in fp64 on the CPU: the value does not depend on the number of threads.
at::Tensor gradient_norm(const std::vector<at::Tensor>& grads);

// Clipping to `max_norm` as a number to divide by, max(1, (norm + 1e-6) / max_norm), for an
// optimizer kernel that divides the gradients on its way (Optimizer::step's grad_scale): no pass
// over the gradients of its own. Undefined when max_norm is 0.
at::Tensor clip_divisor(const at::Tensor& norm, double max_norm);

}  // namespace trainctl
