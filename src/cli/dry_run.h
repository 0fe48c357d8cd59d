// trainctl run --dry-run: what the run would do, without loading the engine.
#pragma once

#include "trainctl/base/world.h"
#include "trainctl/config/load.h"

namespace trainctl {

int dry_run(const LoadedConfig& loaded, const ProcessWorld& world);

}  // namespace trainctl
