// The update: AdamW, Adam and SGD through ATen's fused kernels, over parameter groups.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "trainctl/checkpoint/safetensors.h"
#include "trainctl/config/config.h"
#include "trainctl/model/model.h"

namespace trainctl {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update at `learning_rate` (a group with a rate of its own scales it by rate / base rate).
  // With `grad_scale` and `found_inf` (device scalars, or undefined) gradients are unscaled inside
  // the kernel and the update, its step count included, is skipped where found_inf is 1, without a
  // host synchronisation.
  virtual void step(double learning_rate, const at::Tensor& grad_scale,
                    const at::Tensor& found_inf) = 0;
  void zero_grad();                                    // in place: gradients keep their memory
  virtual std::vector<TensorEntry> state() const = 0;  // by parameter name
  virtual void load_state(const SafetensorsFile& file) = 0;      // by name; throws checkpoint_error
  virtual std::vector<std::string> describe_groups() const = 0;  // for the header

 protected:
  std::vector<at::Tensor> all_parameters_;
};

// Throws usage_error for a group that matches no parameter.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          const std::vector<NamedParameter>& parameters);

}  // namespace trainctl
