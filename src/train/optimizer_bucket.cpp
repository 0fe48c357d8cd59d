#include "train/optimizer_bucket.h"

#include <map>

namespace trainctl {

OptimizerBucket::OptimizerBucket(const ParameterGroup& group, const OptimizerStateLayout& layout)
    : weight_decay_(group.weight_decay),
      rate_factor_(group.rate_factor),
      indices_(group.indices),
      state_(layout.names.size()) {
  for (const NamedParameter& parameter : group.parameters) {
    names_.push_back(parameter.name);
    parameters_.push_back(parameter.tensor);
    for (std::vector<at::Tensor>& list : state_) {
      list.push_back(at::zeros_like(parameter.tensor.detach()));
    }
  }
  if (layout.counts_steps)
    share_step(at::zeros({}, parameters_.front().options().dtype(at::kFloat)));
}

void OptimizerBucket::share_step(const at::Tensor& step) {
  step_ = step;
  steps_.assign(size(), step_);
}

std::vector<OptimizerBucket> OptimizerBucket::split(const std::vector<double>& keys) const {
  std::map<double, OptimizerBucket> parts;
  for (size_t i = 0; i < size(); ++i) {
    auto [position, is_new] = parts.try_emplace(keys[i], OptimizerBucket());
    OptimizerBucket& part = position->second;
    if (is_new) {
      part.weight_decay_ = weight_decay_;
      part.rate_factor_ = rate_factor_;
      part.state_.resize(state_.size());
    }
    part.indices_.push_back(indices_[i]);
    part.names_.push_back(names_[i]);
    part.parameters_.push_back(parameters_[i]);
    for (size_t s = 0; s < state_.size(); ++s) part.state_[s].push_back(state_[s][i]);
  }
  std::vector<OptimizerBucket> result;
  for (auto& [key, part] : parts) {
    if (step_.defined()) part.share_step(step_.clone());
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace trainctl
