// Parameters that one fused kernel call updates, with their state.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "train/optimizer_groups.h"
#include "trainctl/checkpoint/safetensors.h"

namespace trainctl {

// What the optimizers keep per parameter: lists of tensors like the parameters, by name
// ("exp_avg"), and, for those that count their updates, one step count.
struct OptimizerStateLayout {
  std::vector<std::string> names;
  bool counts_steps = false;
};

// Note [Shared step count]
// PyTorch keeps a step count per parameter, all of which must be advanced by calls of their own.
// The kernels accept one tensor in all places, so a bucket shares one. Counts differ only where
// some parameters had no gradient at a step (or a checkpoint says so): then the bucket is split.
class OptimizerBucket {
 public:
  OptimizerBucket(const ParameterGroup& group, const OptimizerStateLayout& layout);

  double weight_decay() const { return weight_decay_; }
  double rate_factor() const { return rate_factor_; }
  size_t size() const { return parameters_.size(); }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<at::Tensor>& state(size_t which) const { return state_[which]; }
  const at::Tensor& step() const { return step_; }
  const std::vector<at::Tensor>& steps() const { return steps_; }  // the shared one, size() times
  const std::string& name(size_t i) const { return names_[i]; }

  // Position of a parameter's first entry in a listing by parameter.
  size_t index(size_t i) const { return indices_[i]; }

  // One bucket for each different key, in ascending order of keys; keys[i] belongs to parameter i.
  // The state is moved, the step count copied.
  std::vector<OptimizerBucket> split(const std::vector<double>& keys) const;

 private:
  OptimizerBucket() = default;
  void share_step(const at::Tensor& step);

  double weight_decay_ = 0, rate_factor_ = 1;
  std::vector<size_t> indices_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<at::Tensor>> state_;  // by layout.names, then by parameter
  at::Tensor step_;                             // undefined when steps are not counted
  std::vector<at::Tensor> steps_;
};

}  // namespace trainctl
