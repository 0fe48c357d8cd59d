#include "cli/run_arguments.h"

#include "cli/parse.h"
#include "trainctl/base/error.h"

namespace trainctl {

std::optional<int> parse_run_arguments(const Arguments& words, RunArguments* arguments) {
  CLI::App app("Trains a model from a JSON config.", "trainctl run");
  app.add_option("CONFIG", arguments->config, "The config file; see trainctl config init")
      ->required();
  add_repeated(&app, "--set", &arguments->overrides,
               "KEY=VALUE overrides a value of the config, e.g. training.max_steps=100");
  app.add_option("--resume", arguments->resume,
                 "auto: continue the run of this name if there is one; never: move it aside and "
                 "begin anew; PATH: continue from this checkpoint or run")
      ->capture_default_str();
  app.add_flag("--dry-run", arguments->dry_run,
               "Check config and data, say what the run would do, and end");
  app.add_flag("--print-param-hash", arguments->print_param_hash,
               "At the end print a checksum over all parameters");
  if (const auto done = parse_arguments(&app, words)) return done;
  if (arguments->resume.empty()) throw usage_error("--resume needs auto, never or a path");
  return std::nullopt;
}

}  // namespace trainctl
