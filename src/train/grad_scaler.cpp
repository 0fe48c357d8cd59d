#include "trainctl/train/grad_scaler.h"

namespace trainctl {

GradScaler::GradScaler(const GradScalerConfig& config, Dtype dtype, at::Device device)
    : config_(config),
      enabled_(config.enabled == Toggle::kOn ||
               (config.enabled == Toggle::kAuto && dtype == Dtype::kFp16)) {
  const at::TensorOptions options = at::TensorOptions(device).dtype(at::kFloat);
  found_inf_ = at::zeros({}, options);
  if (enabled_) {
    scale_ = at::full({}, config.init_scale, options);
    growth_tracker_ = at::zeros({}, options.dtype(at::kInt));
  } else {
    one_ = at::ones({}, options);
  }
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return enabled_ ? loss * scale_ : loss;
}

void GradScaler::unscale(const std::vector<at::Tensor>& grads) {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  // Through fp64, as PyTorch does: the reciprocal of a large fp32 scale is then correctly rounded.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal_().to(at::kFloat);
  found_inf_ = at::zeros_like(scale_);
  if (!grads.empty()) {
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf_, inverse);
  }
}

void GradScaler::guard(const at::Tensor& grad_norm) {
  if (enabled_) return;
  const at::NoGradGuard no_grad;
  found_inf_ = at::zeros_like(one_);
  // The same kernel over one number, multiplied by 1.
  const at::Tensor norm = grad_norm;
  at::_amp_foreach_non_finite_check_and_unscale_(norm, found_inf_, one_);
}

void GradScaler::update() {
  if (!enabled_ || !config_.dynamic) return;
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, config_.growth_factor,
                         config_.backoff_factor, config_.growth_interval);
}

double GradScaler::current_scale() const { return enabled_ ? scale_.item<float>() : 1.0; }

GradScaler::State GradScaler::state() const {
  if (!enabled_) return {1.0, 0};
  return {scale_.item<float>(), growth_tracker_.item<int>()};
}

void GradScaler::load_state(const State& state) {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
}

}  // namespace trainctl
