// Dynamic loss scaling, step for step as torch.amp.GradScaler, and the guard against non-finite
// gradients, which stays on without scaling.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

// The order within one step: scale → backward → unscale → gradient_norm → guard → clip → optimizer
// step with found_inf → update. Nothing waits for the device but current_scale() and state().
class GradScaler {
 public:
  GradScaler(const GradScalerConfig& config, Dtype dtype, at::Device device);

  bool enabled() const { return enabled_; }
  at::Tensor scale(const at::Tensor& loss) const;  // the loss itself when disabled

  // Divides the gradients by the scale in place and sets found_inf. Does nothing when disabled.
  void unscale(const std::vector<at::Tensor>& grads);

  // Sets found_inf from the norm of all gradients when disabled: the norm is not finite if any
  // gradient is not, so that no further pass over them is needed. When enabled, unscale has looked
  // at every gradient, and the norm does not count, as in PyTorch.
  void guard(const at::Tensor& grad_norm);

  // fp32 device scalar, 1 where this step's gradients were not finite; a new tensor every step.
  const at::Tensor& found_inf() const { return found_inf_; }

  void update();  // after the optimizer's step
  double current_scale() const;

  struct State {
    double scale;
    int64_t growth_tracker;
  };
  State state() const;  // {1, 0} when disabled
  void load_state(const State& state);

 private:
  GradScalerConfig config_;
  bool enabled_ = false;
  at::Tensor scale_, growth_tracker_;  // when enabled
  at::Tensor one_;                     // when disabled
  at::Tensor found_inf_;
};

}  // namespace trainctl
