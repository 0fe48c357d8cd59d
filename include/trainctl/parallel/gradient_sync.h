// Sums gradients over ranks while the backward pass computes them.
#pragma once

#include <ATen/ATen.h>

namespace trainctl {

class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // Backward pass from `loss`, a scalar. With `last` (the last micro-batch of a step) every
  // parameter's gradient is afterwards the sum over all ranks and micro-batches. Between steps
  // gradients may be let go (Optimizer::release_grad). Throws UserError naming a parameter that
  // the loss does not reach.
  virtual void backward(const at::Tensor& loss, bool last) = 0;

  // When this rank's own gradients of the last step were complete, in seconds after the call of
  // `backward` for its last micro-batch: what it worked, without what it waited.
  virtual double own_seconds() const = 0;
};

}  // namespace trainctl
