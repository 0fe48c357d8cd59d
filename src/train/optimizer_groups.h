// Which parameters share which hyperparameters.
#pragma once

#include <string>
#include <vector>

#include "trainctl/config/config.h"
#include "trainctl/model/model.h"

namespace trainctl {

// Parameters that are updated alike. Groups of the config that come out equal are one group here.
struct ParameterGroup {
  double weight_decay = 0;
  double rate_factor = 1;       // times the scheduled learning rate
  std::vector<size_t> indices;  // into the model's parameters
  std::vector<NamedParameter> parameters;
};

// config.groups in order, the first match winning; then no_decay by kind; then the optimizer's
// values. Throws usage_error for a group without effect and an unknown kind.
std::vector<ParameterGroup> assign_parameter_groups(const OptimizerConfig& config,
                                                    const std::vector<NamedParameter>& parameters);

// "weight decay 0.1: 18 tensors, 3.2M parameters"
std::string describe_group(const ParameterGroup& group);

}  // namespace trainctl
