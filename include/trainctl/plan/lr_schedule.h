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
//   warmup_stable_decay  base until the last decay steps, then linear to min:
//                        min + (base − min)·(total − step) / decay
// The last update of a run is number total − 1, so that min itself is reached by an update after
// the end only. Schedules that look at `total_steps` need one (needs_total_steps).
double learning_rate_at(const LrSchedulerConfig& scheduler, double base_rate, int64_t step,
                        int64_t total_steps, int64_t warmup_steps);

// Whether the schedule, or its warm-up as a ratio, depends on how long the run is.
bool needs_total_steps(const LrSchedulerConfig& scheduler);

// Number of warm-up steps: warmup_steps, or warmup_ratio of all steps, rounded to the nearest.
int64_t planned_warmup_steps(const LrSchedulerConfig& scheduler, int64_t total_steps);

// warmup_stable_decay: length of the decay, at most what the warm-up leaves of the run.
int64_t planned_decay_steps(const LrSchedulerConfig& scheduler, int64_t total_steps,
                            int64_t warmup_steps);

}  // namespace trainctl
