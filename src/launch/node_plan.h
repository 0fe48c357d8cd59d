// What this node contributes: how many ranks, and each one's processors, threads and GPU.
// Everything that can be refused is refused here, before anything is started.
#pragma once

#include <string>
#include <vector>

#include "launch/visible_devices.h"
#include "trainctl/launch/launch.h"

namespace trainctl {

struct NodePlan {
  int64_t ranks = 1;
  int64_t threads = 0;                   // OMP_NUM_THREADS; 0: the user has set it
  std::string thread_text;               // how they come about
  std::vector<std::vector<int>> cpus;    // by local rank; empty: as inherited
  std::vector<std::string> own_devices;  // CUDA_VISIBLE_DEVICES by local rank; empty: as inherited
  std::string gpu_text;                  // for the header; empty: no GPU is used
};

NodePlan make_node_plan(const LaunchJob& job, const EnvironmentLookup& variable,
                        const fs::path& root = "/");

}  // namespace trainctl
