#include "trainctl/base/error.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {

std::unique_ptr<NodeGroup> make_rendezvous_node_group(const RendezvousOptions&) {
  throw usage_error("several nodes are not in this version; start one with --nnodes 1");
}

}  // namespace trainctl
