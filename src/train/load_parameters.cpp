#include "trainctl/train/load_parameters.h"

#include <ATen/core/grad_mode.h>

#include <sstream>

namespace trainctl {

void load_parameters(const TensorFiles& file, Model& model, const std::string& where) {
  at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : model.parameters()) {
    if (!file.contains(parameter.name)) {
      throw checkpoint_error("'" + where + "' has no parameter '" + parameter.name + "'");
    }
    const at::Tensor saved = file.tensor(parameter.name);
    if (saved.sizes() != parameter.tensor.sizes()) {
      std::ostringstream message;
      message << "'" << where << "': parameter '" << parameter.name << "' has shape "
              << saved.sizes() << ", the model's has " << parameter.tensor.sizes();
      throw checkpoint_error(message.str());
    }
    // A plain copy: a non-leaf view would do, but the leaf keeps requires_grad.
    parameter.tensor.detach().copy_(saved);
  }
}

}  // namespace trainctl
