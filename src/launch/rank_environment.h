// The environment of one rank, as torchrun's workers see it (docs/design.md, section 4).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainctl/launch/node_group.h"
#include "trainctl/launch/options.h"

namespace trainctl {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct RankPlace {
  int64_t local_rank = 0;
  int64_t attempt = 0;
  std::string error_file;      // empty: none
  int64_t threads = 0;         // for OMP_NUM_THREADS; 0: the user has set it
  std::string visible_device;  // CUDA_VISIBLE_DEVICES of its own; empty: as inherited
};

// What is set beyond the launcher's own environment.
Variables rank_variables(const NodeAssignment& node, const LaunchOptions& options,
                         int64_t local_world_size, const RankPlace& place);

// "NAME=value" for execve: the launcher's environment with `variables` in place of what they set.
std::vector<std::string> merge_environment(char** environment, const Variables& variables);

// "${local_rank}" in the arguments of a program, as torchrun replaces it.
std::vector<std::string> rank_arguments(const std::vector<std::string>& argv, int64_t local_rank);

}  // namespace trainctl
