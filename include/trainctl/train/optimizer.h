// The update: AdamW, Adam and SGD through ATen's fused kernels, over parameter groups
// (docs/optimizers.md).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "trainctl/checkpoint/tensor_files.h"
#include "trainctl/config/config.h"
#include "trainctl/model/model.h"

namespace trainctl {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update at `learning_rate` (a group with a rate of its own scales it by rate / base rate).
  // With `grad_scale` and `found_inf` (fp32 device scalars, or undefined) the kernel divides the
  // gradients by grad_scale, and the update, its step count included, is skipped where found_inf
  // is 1. Nothing here waits for the device. A parameter without a gradient is left alone, as in
  // torch.optim.
  virtual void step(double learning_rate, const at::Tensor& grad_scale,
                    const at::Tensor& found_inf) = 0;

  // By parameter name: "<parameter>.exp_avg", "<parameter>.step"…. The tensors are the live ones:
  // use them before the next step.
  virtual std::vector<TensorEntry> state() const = 0;
  // By name; throws checkpoint_error when an entry is missing, left over or of another shape.
  virtual void load_state(const TensorFiles& file) = 0;

  virtual std::vector<std::string> describe_groups() const = 0;  // one line each, for the header

  // The gradients that are there, in parameter order.
  std::vector<at::Tensor> gradients() const;
  // Zeroes gradients in place: whoever holds views of them (a reducer's buckets) keeps them.
  void zero_grad();
  // Lets gradients go: the next backward pass hands over its own tensors instead of adding to
  // zeroed ones, which saves two passes over memory.
  void release_grad();

 protected:
  std::vector<at::Tensor> all_parameters_;
};

// Throws usage_error for a group whose glob matches no parameter, or only such as earlier groups
// took.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          const std::vector<NamedParameter>& parameters);

}  // namespace trainctl
