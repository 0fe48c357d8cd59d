#include "launch/rank_environment.h"

#include <cstdlib>
#include <set>
#include <string_view>

namespace trainctl {

Variables rank_variables(const NodeAssignment& node, const LaunchOptions& options,
                         int64_t local_world_size, const RankPlace& place) {
  const std::string rank = std::to_string(node.first_rank + place.local_rank);
  const std::string world_size = std::to_string(node.world_size);
  const char* async_errors = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  Variables variables = {
      {"RANK", rank},
      {"LOCAL_RANK", std::to_string(options.virtual_local_rank ? 0 : place.local_rank)},
      {"WORLD_SIZE", world_size},
      {"LOCAL_WORLD_SIZE", std::to_string(local_world_size)},
      {"GROUP_RANK", std::to_string(node.node_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(node.node_count)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world_size},
      {"ROLE_NAME", options.role},
      {"MASTER_ADDR", node.master_addr},
      {"MASTER_PORT", std::to_string(node.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(place.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", node.run_id},
      {"TORCHELASTIC_ERROR_FILE", place.error_file},
      // Rank 0 hosts the store, on the port that the launcher keeps for it.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", async_errors != nullptr ? async_errors : "1"},
      {"TRAINCTL_LAUNCH", "1"},
  };
  if (place.threads > 0) variables.emplace_back("OMP_NUM_THREADS", std::to_string(place.threads));
  if (!place.visible_device.empty())
    variables.emplace_back("CUDA_VISIBLE_DEVICES", place.visible_device);
  return variables;
}

std::vector<std::string> merge_environment(char** environment, const Variables& variables) {
  std::set<std::string_view> replaced;
  for (const auto& [name, value] : variables) replaced.insert(name);
  std::vector<std::string> merged;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!replaced.contains(text.substr(0, text.find('=')))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : variables) merged.emplace_back(name).append("=").append(value);
  return merged;
}

std::vector<std::string> rank_arguments(const std::vector<std::string>& argv, int64_t local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  const std::string number = std::to_string(local_rank);
  std::vector<std::string> arguments = argv;
  for (std::string& argument : arguments) {
    for (size_t at = 0; (at = argument.find(kMacro, at)) != std::string::npos; at += number.size())
      argument.replace(at, kMacro.size(), number);
  }
  return arguments;
}

}  // namespace trainctl
