// All ranks must hold the same parameters: they start from the same seed or checkpoint and make the
// same updates. Where they do not, hardware or a defect is at fault, and training is void.
#pragma once

#include <cstdint>

#include "trainctl/model/model.h"
#include "trainctl/parallel/communicator.h"

namespace trainctl {

// Compares a checksum per parameter. Throws UserError(kTrainingFailed) naming the first parameter
// that differs and the ranks that have it so.
void check_parameters_equal(const Model& model, Communicator& communicator, int64_t step);

}  // namespace trainctl
