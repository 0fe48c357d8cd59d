#include "trainctl/launch/process_world.h"

#include <charconv>
#include <cstdlib>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

int64_t whole_number(const std::string& name, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw usage_error(name + " is '" + text + "', which is no whole number; the launcher that set it "
                      "is at fault, or unset it for a single process");
  }
  return value;
}

int64_t required(const EnvironmentLookup& variable, const std::string& name,
                 const std::string& because) {
  const auto text = variable(name);
  if (!text) throw usage_error(because + ", but " + name + " is not set; start ranks with trainctl launch, torchrun or srun");
  return whole_number(name, *text);
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

ProcessWorld read_process_world(const EnvironmentLookup& variable) {
  ProcessWorld world;
  const auto size = variable("WORLD_SIZE");
  if (!size) return world;
  const std::string because = "WORLD_SIZE is " + *size;
  world.world_size = whole_number("WORLD_SIZE", *size);
  if (world.world_size <= 1) return {};
  world.rank = required(variable, "RANK", because);
  world.local_rank = required(variable, "LOCAL_RANK", because);
  world.local_world_size = required(variable, "LOCAL_WORLD_SIZE", because);
  world.master_port = required(variable, "MASTER_PORT", because);
  world.master_addr = variable("MASTER_ADDR").value_or("");
  world.run_id = variable("TORCHELASTIC_RUN_ID").value_or("none");
  if (const auto count = variable("TORCHELASTIC_RESTART_COUNT"))
    world.restart_count = whole_number("TORCHELASTIC_RESTART_COUNT", *count);
  world.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  world.source = variable("TRAINCTL_LAUNCH") ? "trainctl launch" : "torchrun";
  return world;
}

}  // namespace trainctl
