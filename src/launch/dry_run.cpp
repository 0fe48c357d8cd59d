#include "launch/dry_run.h"

#include "launch/cpu_share.h"
#include "launch/make_group.h"
#include "launch/rank_environment.h"

namespace trainctl {

std::string launch_dry_run_text(const LaunchJob& job, const NodePlan& plan) {
  const LaunchOptions& options = job.options;
  NodeAssignment node;
  node.node_count = options.node_count;
  node.node_rank = options.node_rank.value_or(0);
  node.world_size = plan.ranks * options.node_count;
  node.first_rank = plan.ranks * node.node_rank;
  node.run_id = options.run_id;
  node.master_port = options.master_port;
  node.master_addr = options.master_addr;
  std::string text;
  if (options.node_count == 1) {
    const auto group = make_group(options);
    NodeOffer offer;
    offer.local_world_size = plan.ranks;
    node = *group->join(offer, 0, [] { return false; });
  } else if (node.master_addr.empty()) {
    node.master_addr = rendezvous_options(options).host;
  }
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    RankPlace place;
    place.local_rank = rank;
    place.threads = plan.threads;
    if (!plan.own_devices.empty()) place.visible_device = plan.own_devices[index];
    text += "# rank " + std::to_string(node.first_rank + rank) + ": " + plan.thread_text;
    if (!plan.cpus.empty()) text += ", CPUs " + format_cpu_list(plan.cpus[index]);
    text += "; TORCHELASTIC_ERROR_FILE is set at the start\nenv";
    for (const auto& [name, value] : rank_variables(node, options, plan.ranks, place)) {
      if (name == "TORCHELASTIC_ERROR_FILE") continue;
      const bool free_port = name == "MASTER_PORT" && options.master_port == 0;
      text += " " + name + "=" + (free_port ? "<free port>" : shell_quote(value));
    }
    for (const std::string& word : rank_arguments(job.target.argv, rank))
      text += " " + shell_quote(word);
    text += "\n";
  }
  return text;
}

}  // namespace trainctl
