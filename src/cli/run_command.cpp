// trainctl run CONFIG
#include <cstdlib>

#include "cli/command.h"
#include "cli/dry_run.h"
#include "cli/engine_host.h"
#include "cli/run_arguments.h"
#include "cli/run_snapshot.h"
#include "cli/terminal.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/world_json.h"
#include "trainctl/config/load.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {
namespace {

// Variables that libraries read once, when they are loaded; the user's own setting holds.
void prepare_environment(const Config& config) {
  if (config.backend.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

bool was_restarted() {
  const auto count = process_environment()("TORCHELASTIC_RESTART_COUNT");
  return count && *count != "0";
}

nlohmann::json make_request(const LoadedConfig& loaded, const RunArguments& arguments,
                            const ProcessWorld& world) {
  return {{"command", "run"},
          {"config", nlohmann::json::parse(config_to_json(loaded.config))},
          {"options",
           {{"resume", arguments.resume},
            {"restarted", was_restarted()},
            {"print_param_hash", arguments.print_param_hash}}},
          {"world", world},
          {"warnings", loaded.warnings},
          {"origins", loaded.origins}};
}

}  // namespace

int run_command(const Arguments& words) {
  RunArguments arguments;
  if (const auto done = parse_run_arguments(words, &arguments)) return *done;
  const LoadedConfig loaded = load_config(arguments.config, arguments.overrides);
  const ProcessWorld world = read_process_world(process_environment());
  if (arguments.dry_run) return dry_run(loaded, world);
  prepare_environment(loaded.config);
  install_stop_handlers();
  terminal().tolerate_write_errors();  // failing to log never stops training
  RunSnapshot snapshot(world);
  return call_engine(make_request(loaded, arguments, world),
                     [&](const std::string& directory) { snapshot.start(directory); });
}

}  // namespace trainctl
