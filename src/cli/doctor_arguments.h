// The command line of `trainctl doctor`, which `trainctl launch` checks before it starts ranks with
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {

struct DoctorArguments {
  DoctorOptions options;
  bool json = false, verbose = false, docs = false, preflight = false;
  std::optional<std::string> explain;  // an error's text, a file, "-"
  int64_t deadline = 60;               // seconds for each step of the preflight
};

// Returns 0 when the help was asked for and printed; throws usage_error for everything wrong.
std::optional<int> parse_doctor_arguments(const Arguments& words, DoctorArguments* arguments);

}  // namespace trainctl
