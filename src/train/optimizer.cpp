#include "trainctl/train/optimizer.h"

#include <algorithm>
#include <utility>

#include "train/optimizer_bucket.h"
#include "train/optimizer_groups.h"
#include "train/optimizer_state.h"

namespace trainctl {

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> grads;
  grads.reserve(all_parameters_.size());
  for (const at::Tensor& parameter : all_parameters_) {
    if (parameter.grad().defined()) grads.push_back(parameter.grad());
  }
  return grads;
}

void Optimizer::zero_grad() {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = gradients();
  if (!grads.empty()) at::_foreach_zero_(grads);
}

void Optimizer::release_grad() {
  for (at::Tensor& parameter : all_parameters_) parameter.mutable_grad() = at::Tensor();
}

namespace {

OptimizerStateLayout layout_of(const OptimizerConfig& config) {
  if (config.type != OptimizerType::kSgd) return {{"exp_avg", "exp_avg_sq"}, true};
  if (config.momentum == 0) return {};
  return {{"momentum_buffer"}, false};
}

class FusedOptimizer final : public Optimizer {
 public:
  FusedOptimizer(const OptimizerConfig& config, const std::vector<NamedParameter>& parameters)
      : config_(config), layout_(layout_of(config)) {
    for (const NamedParameter& parameter : parameters) all_parameters_.push_back(parameter.tensor);
    for (const ParameterGroup& group : assign_parameter_groups(config, parameters)) {
      buckets_.emplace_back(group, layout_);
      descriptions_.push_back(describe_group(group));
    }
  }

  void step(double learning_rate, const at::Tensor& grad_scale,
            const at::Tensor& found_inf) override {
    const at::NoGradGuard no_grad;
    split_by_gradients();
    for (OptimizerBucket& bucket : buckets_) {
      grads_.clear();
      for (const at::Tensor& parameter : bucket.parameters()) {
        if (parameter.grad().defined()) grads_.push_back(parameter.grad());
      }
      if (!grads_.empty())
        update(bucket, learning_rate * bucket.rate_factor(), grad_scale, found_inf);
    }
    grads_.clear();  // keeps no gradient alive that release_grad() lets go
  }

  std::vector<TensorEntry> state() const override {
    return optimizer_state(buckets_, layout_, all_parameters_.size());
  }

  void load_state(const TensorFiles& file) override {
    buckets_ = load_optimizer_state(buckets_, layout_, file);
  }

  std::vector<std::string> describe_groups() const override { return descriptions_; }

 private:
  // Afterwards a bucket's parameters either all have a gradient or none has.
  void split_by_gradients() {
    for (size_t b = 0; b < buckets_.size(); ++b) {
      const std::vector<at::Tensor>& parameters = buckets_[b].parameters();
      const auto with_gradient = std::count_if(parameters.begin(), parameters.end(),
                                               [](const auto& p) { return p.grad().defined(); });
      if (with_gradient == 0 || with_gradient == std::ssize(parameters)) continue;
      std::vector<double> keys;
      for (const at::Tensor& parameter : parameters) keys.push_back(parameter.grad().defined());
      std::vector<OptimizerBucket> parts = buckets_[b].split(keys);
      buckets_[b] = std::move(parts[0]);
      buckets_.push_back(std::move(parts[1]));
    }
  }

  void update(OptimizerBucket& bucket, double rate, const at::Tensor& grad_scale,
              const at::Tensor& found_inf) {
    if (config_.type == OptimizerType::kSgd) {
      update_sgd(bucket, rate, optional(grad_scale), optional(found_inf));
      return;
    }
    const at::Tensor& step = bucket.step();
    step.add_(1);
    update_adam(bucket, rate, optional(grad_scale), optional(found_inf));
    if (found_inf.defined()) step.sub_(found_inf);  // a skipped update does not count
  }

  void update_adam(OptimizerBucket& bucket, double rate,
                   const std::optional<at::Tensor>& grad_scale,
                   const std::optional<at::Tensor>& found_inf) {
    // AdamW takes the decay off the weights, Adam adds it to the gradients, as in torch.optim.
    const auto kernel = [&](auto&& fused) {
      fused(bucket.parameters(), grads_, bucket.state(0), bucket.state(1),
            /*max_exp_avg_sqs=*/at::TensorList{}, bucket.steps(), rate, config_.betas[0],
            config_.betas[1], bucket.weight_decay(), config_.eps, /*amsgrad=*/false,
            /*maximize=*/false, grad_scale, found_inf);
    };
    if (config_.type == OptimizerType::kAdamW) {
      kernel([](auto&&... a) { at::_fused_adamw_(a...); });
    } else {
      kernel([](auto&&... a) { at::_fused_adam_(a...); });
    }
  }

  void update_sgd(OptimizerBucket& bucket, double rate, const std::optional<at::Tensor>& grad_scale,
                  const std::optional<at::Tensor>& found_inf) {
    // Buffers that start at 0 become the first gradient by themselves, so that there is no first
    // step to tell apart (which would leave them unset were it skipped).
    const at::TensorList buffers = layout_.names.empty() ? at::TensorList{} : bucket.state(0);
    at::_fused_sgd_(bucket.parameters(), grads_, buffers, bucket.weight_decay(), config_.momentum,
                    rate, /*dampening=*/0.0, config_.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false, grad_scale, found_inf);
  }

  static std::optional<at::Tensor> optional(const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  }

  OptimizerConfig config_;
  OptimizerStateLayout layout_;
  std::vector<OptimizerBucket> buckets_;
  std::vector<std::string> descriptions_;
  std::vector<at::Tensor> grads_;  // of the bucket at hand; a member to keep its capacity
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          const std::vector<NamedParameter>& parameters) {
  return std::make_unique<FusedOptimizer>(config, parameters);
}

}  // namespace trainctl
