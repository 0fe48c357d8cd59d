// trainctl doctor --preflight
#pragma once

#include "cli/doctor_arguments.h"

namespace trainctl {

// Loads the engine; alone, or as one rank of several.
int preflight_command(const DoctorArguments& arguments);

}  // namespace trainctl
