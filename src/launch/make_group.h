#pragma once

#include <memory>

#include "trainctl/launch/node_group.h"
#include "trainctl/launch/options.h"

namespace trainctl {

// For several nodes. Refuses what is missing.
RendezvousOptions rendezvous_options(const LaunchOptions& options);

std::unique_ptr<NodeGroup> make_group(const LaunchOptions& options);

}  // namespace trainctl
