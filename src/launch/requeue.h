// --requeue: a Slurm job whose run stopped with a checkpoint goes back into the queue.
#pragma once

#include "trainctl/launch/process_world.h"

namespace trainctl {

// Throws usage_error outside a job of Slurm.
void require_slurm_job(const EnvironmentLookup& variable);

// On the job's first launcher (SLURM_PROCID 0, or none): asks Slurm to requeue the job, unless it
// was cancelled or is being preempted, which Slurm itself decides on. What goes wrong is said, and
// changes nothing else: the checkpoint is there.
void requeue_slurm_job(const EnvironmentLookup& variable);

}  // namespace trainctl
