// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "trainctl/config/config.h"

namespace trainctl {

// Rate of update number `step`, counted from 0. Warm-up is linear: base × (step + 1) / warmup_steps
// for step < warmup_steps. After it, with t = (step − warmup) / (total − warmup) clamped to [0, 1]:
//   constant             base
//   linear               min + (base − min)(1 − t)
//   cosine               min + (base − min)(1 + cos πt) / 2
//   inverse_sqrt         max(min, base·sqrt(max(warmup, 1) / (step + 1)))
//   warmup_stable_decay  base until the last decay steps, then linear to min
double learning_rate_at(const LrSchedulerConfig& scheduler, double base_rate, int64_t step,
                        int64_t total_steps, int64_t warmup_steps);

}  // namespace trainctl
