// `trainctl launch`: starts the ranks of this node, watches over them, and ends with what they
// ended with.
#pragma once

#include <functional>
#include <string>

#include "trainctl/launch/agreed_values.h"
#include "trainctl/launch/options.h"
#include "trainctl/launch/target.h"

namespace trainctl {

struct LaunchJob {
  LaunchOptions options;
  LaunchTarget target;
  // Of the config that the ranks run; empty for other programs.
  std::string device;          // backend.device
  int64_t config_threads = 0;  // backend.threads
  // What all nodes must agree on beside the launcher's own values: name and value.
  AgreedValues agree;
  // Refuses a number of ranks that the config does not fit (UserError).
  std::function<void(int64_t ranks)> check_ranks;
};

// Returns the exit code (docs/exit-codes.md). Throws UserError before anything is started.
// `print` shows what --dry-run has to say.
int launch(const LaunchJob& job, void (*print)(const std::string& text));

}  // namespace trainctl
