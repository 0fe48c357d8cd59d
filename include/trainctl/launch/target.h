// What the ranks run: our own command, a Python script or module, or any program.
#pragma once

#include <string>
#include <vector>

#include "trainctl/launch/options.h"

namespace trainctl {

enum class TargetKind { kConfig, kCommand, kScript, kModule, kProgram };

struct LaunchTarget {
  TargetKind kind = TargetKind::kProgram;
  std::string path;               // of the executable
  std::vector<std::string> argv;  // as the ranks get it; "${local_rank}" stands for theirs
  std::string name;               // for messages
  // kConfig and kCommand: our command and its arguments ("run", "config.json", "--set", …).
  std::vector<std::string> command;

  bool is_trainctl() const { return kind == TargetKind::kConfig || kind == TargetKind::kCommand; }
};

// From the words after the flags. Programs and scripts that do not exist are refused here, before
// anything is started (usage_error).
LaunchTarget resolve_target(const LaunchCommandLine& line, const EnvironmentLookup& variable);

// The executable `name` as a shell would find it; empty when there is none.
std::string find_program(const std::string& name, const std::string& path_variable);

// "env A=b 'two words'": as a shell reads it back.
std::string shell_quote(const std::string& word);

}  // namespace trainctl
