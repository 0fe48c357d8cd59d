// Which checkpoints of a run stay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {

struct KeptCandidate {
  int64_t step = 0;
  std::optional<double> validation_loss;
};

// The steps to remove, ascending: all but the newest keep_latest (at least one), the multiples of
// keep_every, and the keep_best with the lowest validation loss (the earlier of equal ones).
std::vector<int64_t> steps_to_remove(std::vector<KeptCandidate> candidates,
                                     const Retention& retention);

// Removes what `retention` lets go of, after `saved_step` was committed. Only complete checkpoints
// of this very run up to that step count: steps are compared as numbers, and what another run or a
// later step left is neither counted nor removed, but warned of, once.
void apply_retention(const fs::path& checkpoints_dir, int64_t saved_step, const std::string& run,
                     const Retention& retention);

}  // namespace trainctl
