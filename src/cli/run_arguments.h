// The command line of `trainctl run`, which `trainctl launch` checks before it starts ranks with
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace trainctl {

struct RunArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string resume = "auto";
  bool dry_run = false;
  bool print_param_hash = false;
};

// Returns 0 when the help was asked for and printed; throws usage_error for everything wrong.
std::optional<int> parse_run_arguments(const Arguments& words, RunArguments* arguments);

}  // namespace trainctl
