// Dynamic loss scaling, step for step as torch.amp.GradScaler.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

class GradScaler {
 public:
  GradScaler(const GradScalerConfig& config, Dtype dtype, at::Device device);
  bool enabled() const { return enabled_; }
  at::Tensor scale(const at::Tensor& loss) const;  // the loss itself when disabled
  // Divides gradients by the scale in place and sets found_inf (also when disabled: the non-finite
  // guard).
  void unscale(const std::vector<at::Tensor>& grads);
  const at::Tensor& found_inf() const { return found_inf_; }  // device scalar, 0 or 1
  void update();                                              // after the optimizer's step
  double current_scale() const;                               // synchronises
  struct State {
    double scale;
    int64_t growth_tracker;
  };
  State state() const;
  void load_state(const State& state);

 private:
  GradScalerConfig config_;
  bool enabled_ = false;
  at::Tensor scale_, growth_tracker_, found_inf_;
};

}  // namespace trainctl
