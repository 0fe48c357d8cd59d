// Every group, one function per file of this folder.
#pragma once

#include "doctor/group.h"

namespace trainctl::doctor {

Group driver_group();

}  // namespace trainctl::doctor
