// One row per flag of `trainctl launch`: parsing, environment variables, --help and docs/launch.md
// are made from it.
#pragma once

#include <span>
#include <string>

#include "trainctl/launch/options.h"

namespace trainctl {

struct FlagValue {
  std::string source;  // "--nnodes", or the variable's name
  std::string text;
};

struct FlagRow {  // NOLINT(clang-analyzer-optin.performance.Padding): the table reads in this order
  const char* name;        // without dashes
  const char* other_name;  // or nullptr
  char letter;             // -m; or 0
  const char* value;       // what --help calls it; nullptr: a switch
  const char* help;
  void (*set)(LaunchOptions*, const FlagValue&);
  bool from_torchrun;  // has a PET_ variable
  // Flags of torchrun that change nothing here: accepted, and this is said about them.
  const char* note = nullptr;
};

std::span<const FlagRow> launch_flags();

// A switch as an environment variable says it.
bool parse_switch(const FlagValue& value);

}  // namespace trainctl
