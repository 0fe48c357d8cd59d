// `trainctl generate RUN`: continues a prompt with the newest weights of a run.
#pragma once

#include <string>

#include "trainctl/base/error.h"
#include "trainctl/train/generate.h"
#include "trainctl/train/host.h"

namespace trainctl {

struct GenerateCommand {
  std::string source;  // a run directory, or one of its checkpoints
  std::string prompt;
  GenerateOptions generate;
};

ExitCode run_generate(const GenerateCommand& command, const RunHost& host);

}  // namespace trainctl
