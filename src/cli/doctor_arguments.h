// The command line of `trainctl doctor`, which `trainctl launch` checks before it starts ranks with
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {

struct DoctorArguments {
  DoctorOptions options;
  bool json = false, verbose = false, docs = false, preflight = false;
  std::optional<std::string> explain;  // an error's text, a file, "-"
  double preflight_deadline = 60;      // seconds for each of its steps
  std::vector<std::string> compare;    // one: with this machine; two: with each other
  std::string snapshot;                // a run's child writes it there and says nothing
  int snapshot_of = 0;                 // the run's process
};

// Returns 0 when the help was asked for and printed; throws usage_error for everything wrong.
std::optional<int> parse_doctor_arguments(const Arguments& words, DoctorArguments* arguments);

}  // namespace trainctl
