// Weights from a safetensors file into a model, by name.
#pragma once

#include <string>

#include "trainctl/checkpoint/tensor_files.h"
#include "trainctl/model/model.h"

namespace trainctl {

// Throws checkpoint_error for a missing name or another shape; `where` names the file.
void load_parameters(const TensorFiles& file, Model& model, const std::string& where);

}  // namespace trainctl
