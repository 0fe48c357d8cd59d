#pragma once

#include <string>

#include "launch/node_plan.h"
#include "trainctl/launch/launch.h"

namespace trainctl {

// What --dry-run prints: for each rank of this node a command line that a shell can run.
std::string launch_dry_run_text(const LaunchJob& job, const NodePlan& plan);

}  // namespace trainctl
