// A ProcessWorld as it crosses from the executable to the engine.
#pragma once

#include <nlohmann/json.hpp>

#include "trainctl/base/world.h"

namespace trainctl {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ProcessWorld, rank, world_size, local_rank,
                                                local_world_size, node_rank, node_count,
                                                master_addr, master_port, restart_count, run_id,
                                                agent_store, source)

}  // namespace trainctl
