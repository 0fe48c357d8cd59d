// Interfaces, names, InfiniBand and clock, and whether given hosts can be reached.
#pragma once

#include <cstdint>
#include <map>

#include "doctor/group.h"

namespace trainctl::doctor {

struct Interface {
  std::string name;
  bool running = false;  // up, and with a cable or what stands for one
  bool loopback = false;
  std::vector<std::string> addresses;
  int64_t mtu = 0;
  int64_t speed = -1;  // Mbit/s; -1: it does not say
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Interface, name, running, loopback, addresses, mtu,
                                                speed)

struct RdmaPort {
  std::string device;  // mlx5_0
  std::string port;
  std::string state;  // ACTIVE, DOWN, INIT …
  std::string rate;   // 400 Gb/sec (4X NDR)
  std::string layer;  // InfiniBand or Ethernet (RoCE)
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RdmaPort, device, port, state, rate, layer)

struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses;
  std::string problem;
  bool asked = false;
  bool only_loopback = false;
  double seconds = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ResolvedName, name, addresses, problem, asked,
                                                only_loopback, seconds)

struct Reach {
  std::string target;   // as given
  std::string address;  // which was tried last
  bool port_given = false;
  std::string outcome;  // open, refused, silent, unreachable, unresolved
  std::string detail;   // the system's word
  double seconds = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Reach, target, address, port_given, outcome, detail,
                                                seconds)

struct Clock {
  int64_t now = 0;  // seconds since 1970
  bool known = false;
  bool synchronized = false;
  double error_seconds = 0;  // the kernel's own estimate of the largest error
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Clock, now, known, synchronized, error_seconds)

struct NetworkEvidence {
  std::vector<Interface> interfaces;
  std::string outward_address;   // from which packets to MASTER_ADDR or any other host leave
  std::string loopback_trouble;  // why a connection to this host itself failed
  std::vector<RdmaPort> rdma;
  bool rdma_device_files = false;  // /dev/infiniband/uverbs*
  bool verbs_library = false;      // libibverbs.so.1, which NCCL opens
  std::map<std::string, std::string> variables;
  ResolvedName own_name, master;
  std::vector<Reach> hosts;
  Clock clock;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NetworkEvidence, interfaces, outward_address,
                                                loopback_trouble, rdma, rdma_device_files,
                                                verbs_library, variables, own_name, master, hosts,
                                                clock)

NetworkEvidence gather_network(const DoctorOptions& options);

// One target, "NAME:PORT" or "NAME".
Reach try_to_reach(const std::string& target, std::chrono::milliseconds patience);

}  // namespace trainctl::doctor
