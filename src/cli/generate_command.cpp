// trainctl generate RUN --prompt TEXT
#include <cmath>

#include "cli/command.h"
#include "cli/engine_host.h"
#include "cli/parse.h"
#include "trainctl/base/error.h"
#include "trainctl/base/stop.h"

namespace trainctl {

int generate_command(const Arguments& words) {
  std::string source, prompt;
  int64_t max_new_tokens = 200, seed = 1, top_k = 0;
  double temperature = 0.8;
  CLI::App app("Continues a prompt with a trained model.", "trainctl generate");
  app.add_option("RUN", source, "A run's folder, or one of its checkpoints")->required();
  app.add_option("--prompt", prompt, "The text to continue")->required();
  app.add_option("--max-new-tokens", max_new_tokens, "Length of the continuation")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", seed, "Seed of the sampling")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  app.add_option("--temperature", temperature,
                 "Divides the logits before sampling; 0 takes the likeliest token")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  app.add_option("--top-k", top_k, "Sample among the K likeliest tokens; 0: among all")
      ->check(whole_number(0, 2147483647))
      ->capture_default_str();
  if (const auto done = parse_arguments(&app, words)) return *done;
  if (!std::isfinite(temperature))
    throw usage_error("--temperature must be a number from 0 to 1000");
  if (prompt.empty()) throw usage_error("--prompt is empty; give a text to continue");
  install_stop_handlers();
  return call_engine({{"command", "generate"},
                      {"options",
                       {{"source", source},
                        {"prompt", prompt},
                        {"max_new_tokens", max_new_tokens},
                        {"seed", seed},
                        {"temperature", temperature},
                        {"top_k", top_k}}}});
}

}  // namespace trainctl
