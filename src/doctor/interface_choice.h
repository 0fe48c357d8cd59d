// Which interfaces NCCL takes for its sockets: its rules, on the interfaces that are there.
#pragma once

#include "doctor/network_evidence.h"

namespace trainctl::doctor {

// In NCCL's order; the first one carries the bootstrap connections. Empty: NCCL gives up.
// As ncclFindInterfaces of NCCL 2.28 (src/misc/socket.cc) does it: what NCCL_SOCKET_IFNAME selects
// ("eth,ib0" prefixes, "=eth0" whole names, "^docker" all but these) or nothing; without it those
// that begin with "ib", else all but docker, lo and virbr, else docker, else lo, else virbr.
std::vector<Interface> nccl_interfaces(const NetworkEvidence& evidence);

// A name that virtual networks and tunnels give to theirs: no way to other hosts, or a slow one.
bool looks_virtual(const std::string& name);

}  // namespace trainctl::doctor
