#include "trainctl/launch/launch_defaults.h"

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

void require_same(const LaunchOptions& options, const LaunchDefaults& defaults, const char* flag,
                  int64_t given, int64_t known) {
  if (!options.given(flag) || given == known) return;
  throw usage_error(options.source(flag) + " is " + std::to_string(given) + ", but " +
                    defaults.source + " says " + std::to_string(known) + "; leave it out");
}

}  // namespace

LaunchDefaults read_launch_defaults(const EnvironmentLookup&) { return {}; }

void apply_launch_defaults(const LaunchDefaults& defaults, LaunchOptions* options) {
  if (defaults.source.empty() || options->standalone) return;
  if (defaults.node_count) {
    require_same(*options, defaults, "nnodes", options->node_count, *defaults.node_count);
    options->node_count = *defaults.node_count;
  }
  if (defaults.node_rank) {
    if (options->node_rank)
      require_same(*options, defaults, "node-rank", *options->node_rank, *defaults.node_rank);
    options->node_rank = *defaults.node_rank;
  }
  if (options->node_count > 1 && options->rdzv_endpoint.empty() && options->master_addr.empty())
    options->rdzv_endpoint = defaults.rdzv_host;
  if (!options->given("rdzv-id") && !defaults.run_id.empty()) options->run_id = defaults.run_id;
}

}  // namespace trainctl
