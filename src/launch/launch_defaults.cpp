#include "trainctl/launch/launch_defaults.h"

#include "trainctl/base/log.h"
#include "trainctl/launch/slurm.h"

namespace trainctl {

void apply_launch_defaults(const EnvironmentLookup& variable, LaunchOptions* options) {
  if (options->standalone) return;
  LaunchPlaceFlags flags;
  if (options->given("nnodes")) flags.node_count = options->node_count;
  flags.node_count_source = options->source("nnodes");
  flags.node_rank = options->node_rank;
  flags.node_rank_source = options->source("node-rank");
  const SlurmLaunchAdvice advice = advise_launch(variable, flags);
  if (!advice.warning.empty()) log_warning(advice.warning);
  if (!advice.place) return;
  options->node_count = advice.place->node_count;
  options->node_rank = advice.place->node_rank;
  if (options->rdzv_endpoint.empty() && options->master_addr.empty()) {
    options->rdzv_endpoint = advice.place->endpoint.to_string();
    options->endpoint_origin = advice.place->endpoint_origin;
    options->sources["rdzv-endpoint"] =
        options->endpoint_origin.substr(0, options->endpoint_origin.find(' '));
  }
  if (!options->given("rdzv-id")) options->run_id = advice.place->run_id;
}

}  // namespace trainctl
