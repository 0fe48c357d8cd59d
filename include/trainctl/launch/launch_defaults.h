// What the surroundings say about a launch where flags and variables are silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainctl/launch/options.h"

namespace trainctl {

struct LaunchDefaults {
  std::string source;  // "srun", for messages; empty: nothing is known
  std::optional<int64_t> node_count;
  std::optional<int64_t> node_rank;
  std::string rdzv_host;  // the first node
  std::string run_id;     // the job's
};

LaunchDefaults read_launch_defaults(const EnvironmentLookup& variable);

// Fills in what was not given. A flag that contradicts the surroundings is refused with both
// values.
void apply_launch_defaults(const LaunchDefaults& defaults, LaunchOptions* options);

}  // namespace trainctl
