// Every group, one function per file of this folder.
#pragma once

#include "doctor/group.h"

namespace trainctl::doctor {

Group driver_group();
Group libraries_group();
Group gpus_group();
Group limits_group();
Group network_group();
Group storage_group();
Group context_group();

}  // namespace trainctl::doctor
