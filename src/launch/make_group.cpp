// From the flags to the launchers' meeting.
#include "launch/make_group.h"

#include <chrono>

#include "trainctl/base/error.h"
#include "trainctl/launch/endpoint.h"

namespace trainctl {

RendezvousOptions rendezvous_options(const LaunchOptions& options) {
  RendezvousOptions rendezvous;
  rendezvous.node_count = options.node_count;
  rendezvous.run_id = options.run_id;
  rendezvous.master_addr = options.master_addr;
  rendezvous.local_addr = options.local_addr;
  rendezvous.master_port = options.master_port;
  rendezvous.join_timeout = std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(options.join_timeout));
  if (!options.rdzv_endpoint.empty()) {
    const Endpoint endpoint =
        parse_endpoint(options.rdzv_endpoint, options.source("rdzv-endpoint"));
    rendezvous.host = endpoint.host;
    rendezvous.port = endpoint.port;
    rendezvous.host_source = options.source("rdzv-endpoint");
    if (!options.endpoint_origin.empty()) {
      rendezvous.host_cure =
          options.endpoint_origin +
          ", whose first node the launchers meet on, but this host does not know Slurm's name for "
          "it: let names of nodes resolve (DNS or /etc/hosts), or give that node's address on all "
          "of them with --rdzv-endpoint ADDRESS:" +
          std::to_string(endpoint.port);
    }
    return rendezvous;
  }
  if (options.master_addr.empty()) {
    throw usage_error(options.source("nnodes") + " is " + std::to_string(options.node_count) +
                      ", but --rdzv-endpoint is missing: name the host where the nodes meet, the "
                      "same on all of them, as in --rdzv-endpoint node1:29400");
  }
  // As torchrun's static rendezvous: the launchers meet there, and the ranks take a free port.
  rendezvous.host = parse_endpoint(options.master_addr, options.source("master-addr")).host;
  rendezvous.host_source = options.source("master-addr");
  if (options.master_port != 0) rendezvous.port = options.master_port;
  rendezvous.master_port = 0;
  return rendezvous;
}

std::unique_ptr<NodeGroup> make_group(const LaunchOptions& options) {
  if (options.node_count > 1) return make_rendezvous_node_group(rendezvous_options(options));
  const std::string address = !options.master_addr.empty()  ? options.master_addr
                              : !options.local_addr.empty() ? options.local_addr
                                                            : "127.0.0.1";
  return make_local_node_group(address, options.master_port, options.run_id);
}

}  // namespace trainctl
