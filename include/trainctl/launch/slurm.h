// What Slurm says about the process that srun has started, from its variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/launch/endpoint.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {

// SLURM_JOB_NODELIST and its kind: "a[1-3,07-09],b,c[1-2]x[3-4]". Throws usage_error naming
// `source`.
std::vector<std::string> parse_node_list(const std::string& text, const std::string& source);

// SLURM_TASKS_PER_NODE and its kind: "2(x3),1".
std::vector<int64_t> parse_tasks_per_node(const std::string& text, const std::string& source);

// One task of a step that srun has started.
struct SlurmStep {
  std::string job_id;
  std::string step_id;
  int64_t task = 0;
  int64_t task_count = 1;
  int64_t local_task = 0;  // among the tasks of this node
  int64_t local_task_count = 1;
  int64_t node = 0;
  int64_t node_count = 1;
  std::string first_node;  // which task 0 runs on; empty for a step of one task without a node list
  std::string node_list;   // where that name comes from: "SLURM_STEP_NODELIST is n[05-06]"
  int64_t port = 0;        // the same for all tasks of the step, and not for steps beside it

  std::string run_id() const { return "slurm-" + job_id + "." + step_id; }
};

// None: no step, as in a batch script or an interactive shell of a job, which run once whatever the
// job's number of tasks. Contradicting variables are refused with their values.
std::optional<SlurmStep> read_slurm_step(const EnvironmentLookup& variable);

// What flags of `trainctl launch` say, as far as they are given.
struct LaunchPlaceFlags {
  std::optional<int64_t> node_count;
  std::string node_count_source = "--nnodes";  // for messages
  std::optional<int64_t> node_rank;
  std::string node_rank_source = "--node-rank";
};

// A launcher's place as Slurm knows it.
struct SlurmLaunchPlace {
  int64_t node_rank = 0;
  int64_t node_count = 1;
  Endpoint endpoint;
  std::string endpoint_origin;  // SlurmStep::node_list
  std::string run_id;
};

struct SlurmLaunchAdvice {
  std::optional<SlurmLaunchPlace> place;  // of a step with several launchers, one per node
  std::string warning;                    // about a batch script on several nodes without srun
};

// For `srun trainctl launch`, with one task per node. Refused with both values: flags that
// contradict the step or exceed the job; several launchers on one node.
SlurmLaunchAdvice advise_launch(const EnvironmentLookup& variable, const LaunchPlaceFlags& flags);

}  // namespace trainctl
