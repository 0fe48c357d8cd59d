// trainctl run --dry-run: what the run would do, without loading the engine.
#pragma once

#include "trainctl/config/load.h"

namespace trainctl {

int dry_run(const LoadedConfig& loaded);

}  // namespace trainctl
