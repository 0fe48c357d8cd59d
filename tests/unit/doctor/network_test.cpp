#include <arpa/inet.h>
#include <gmock/gmock.h>

#include "doctor/interface_choice.h"
#include "doctor/network_evidence.h"
#include "judging.h"
#include "launch/sockets.h"
#include "support/testing.h"

namespace trainctl::doctor {
namespace {

using ::testing::HasSubstr;

Interface interface(const std::string& name, const std::string& address, bool running = true) {
  Interface made;
  made.name = name;
  made.running = running;
  made.loopback = name == "lo";
  if (!address.empty()) made.addresses = {address};
  made.mtu = 1500;
  return made;
}

NetworkEvidence good_network() {
  NetworkEvidence network;
  network.interfaces = {interface("lo", "127.0.0.1"), interface("docker0", "172.17.0.1"),
                        interface("eth0", "10.0.0.5"), interface("eth1", "10.1.0.5")};
  network.outward_address = "10.0.0.5";
  network.own_name = {"node5", {"10.0.0.5"}, "", true, false, 0.001};
  network.clock = {1800000000, true, true, 0.01};
  return network;
}

std::string said_of(const std::string& id, const NetworkEvidence& network,
                    const DoctorOptions& options = {}) {
  return said(judge(network_group(), id, network, options));
}

std::string chosen(const NetworkEvidence& network) {
  std::string names;
  for (const Interface& one : nccl_interfaces(network)) names += one.name + " ";
  return names;
}

TEST(NetworkProbes, FindNothingOnAGoodNetwork) {
  for (const Probe& probe : network_group().probes) {
    EXPECT_EQ(said_of(probe.id, good_network()), "ok") << probe.id;
  }
}

TEST(NcclInterfaces, WithoutAVariableDockerAndLoopbackComeLast) {
  NetworkEvidence network = good_network();
  EXPECT_EQ(chosen(network), "eth0 eth1 ");
  network.interfaces.push_back(interface("ib0", "10.2.0.5"));
  EXPECT_EQ(chosen(network), "ib0 ");
  network.interfaces.resize(2);
  EXPECT_EQ(chosen(network), "docker0 ");
  network.interfaces.resize(1);
  EXPECT_EQ(chosen(network), "lo ");
}

TEST(NcclInterfaces, VariableSelectsByPrefixNameOrExclusion) {
  NetworkEvidence network = good_network();
  network.interfaces.push_back(interface("eth10", "10.3.0.5"));
  network.variables["NCCL_SOCKET_IFNAME"] = "eth1";
  EXPECT_EQ(chosen(network), "eth1 eth10 ");
  network.variables["NCCL_SOCKET_IFNAME"] = "=eth1";
  EXPECT_EQ(chosen(network), "eth1 ");
  network.variables["NCCL_SOCKET_IFNAME"] = "^docker,lo";
  EXPECT_EQ(chosen(network), "eth0 eth1 eth10 ");
  network.variables["NCCL_SOCKET_IFNAME"] = "^=eth0";
  EXPECT_EQ(chosen(network), "lo docker0 eth1 eth10 ");
  network.variables["NCCL_SOCKET_IFNAME"] = "ens";
  EXPECT_EQ(chosen(network), "");
}

TEST(NcclInterfaces, ThoseThatAreDownOrOfAnotherFamilyDoNotCount) {
  NetworkEvidence network = good_network();
  network.interfaces[2].running = false;
  EXPECT_EQ(chosen(network), "eth1 ");
  network.interfaces[2] = interface("eth0", "fe80::1");
  network.variables["NCCL_SOCKET_FAMILY"] = "AF_INET6";
  EXPECT_EQ(chosen(network), "eth0 ");
}

TEST(NetworkProbes, NcclsInterface) {
  NetworkEvidence network = good_network();
  network.variables["NCCL_SOCKET_IFNAME"] = "ens";
  const Finding finding = judge(network_group(), "network.nccl", network);
  EXPECT_EQ(said(finding), "unfit nccl-ifname-nothing");
  EXPECT_THAT(finding.cause, HasSubstr("lo, docker0, eth0, eth1"));
  EXPECT_EQ(said_of("network.nccl", network, for_cpu()), "warning nccl-ifname-nothing");
  network = good_network();
  network.interfaces.insert(network.interfaces.begin(), interface("br-12ab", "172.18.0.1"));
  EXPECT_EQ(said_of("network.nccl", network), "warning nccl-interface-virtual");
  network.interfaces.clear();
  EXPECT_EQ(said_of("network.nccl", network), "note no-interface");
}

TEST(NetworkProbes, GlooNamesAreWholeAndMustBeThere) {
  NetworkEvidence network = good_network();
  network.variables["GLOO_SOCKET_IFNAME"] = "eth0,eth1";
  EXPECT_EQ(said_of("network.gloo", network), "ok");
  network.variables["GLOO_SOCKET_IFNAME"] = "eth0,bogus0";
  const Finding finding = judge(network_group(), "network.gloo", network);
  EXPECT_EQ(said(finding), "unfit gloo-ifname-unknown");
  EXPECT_THAT(finding.found, HasSubstr("'bogus0'"));
  network.variables["GLOO_SOCKET_IFNAME"] = "eth";  // a prefix is enough for NCCL only
  EXPECT_EQ(said_of("network.gloo", network), "unfit gloo-ifname-unknown");
  network = good_network();
  network.outward_address = "";
  EXPECT_EQ(said_of("network.gloo", network), "note");
}

TEST(NetworkProbes, NoInterfaceAndBrokenLoopback) {
  NetworkEvidence network = good_network();
  network.interfaces.resize(1);
  EXPECT_EQ(said_of("network.interfaces", network), "note no-interface");
  network.loopback_trouble = "Network is unreachable";
  EXPECT_EQ(said_of("network.loopback", network), "unfit loopback-broken");
}

TEST(NetworkProbes, Names) {
  NetworkEvidence network = good_network();
  network.own_name = {"bogus", {}, "Name or service not known", true, false, 0.1};
  EXPECT_EQ(said_of("network.own_name", network), "warning own-name-unresolved");
  network.own_name = {"debian", {"127.0.1.1"}, "", true, true, 0.1};
  EXPECT_EQ(said_of("network.own_name", network), "note own-name-loopback");
  network.own_name = {"slow", {"10.0.0.5"}, "", true, false, 0.6};
  EXPECT_EQ(said_of("network.own_name", network), "warning name-service-slow");
  network.master = {"gone", {}, "Name or service not known", true, false, 0.1};
  EXPECT_EQ(said_of("network.master", network), "unfit name-unresolved");
}

Reach reach(const std::string& target, const std::string& outcome, bool port_given = true) {
  return {target, outcome == "unresolved" ? "" : "10.0.0.9", port_given, outcome, outcome, 0.5};
}

TEST(NetworkProbes, GivenHostsAreToldApart) {
  NetworkEvidence network = good_network();
  network.hosts = {reach("a:29500", "open")};
  EXPECT_EQ(said_of("network.hosts", network), "ok");
  for (const auto& [outcome, explanation] :
       {std::pair("refused", "port-refused"), std::pair("silent", "host-silent"),
        std::pair("unreachable", "host-unreachable"), std::pair("unresolved", "name-unresolved")}) {
    network.hosts = {reach("a:29500", "open"), reach("b:29500", outcome)};
    const Finding finding = judge(network_group(), "network.hosts", network);
    EXPECT_EQ(said(finding), std::string("unfit ") + explanation);
    EXPECT_THAT(finding.found, HasSubstr("a:29500 (10.0.0.9) answers; b:29500"));
  }
  network.hosts = {reach("b", "refused", false)};  // the host has answered
  EXPECT_EQ(said_of("network.hosts", network), "ok");
}

TEST(NetworkProbes, InfiniBand) {
  NetworkEvidence network = good_network();
  network.rdma = {{"mlx5_0", "1", "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"},
                  {"mlx5_1", "1", "ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet"}};
  network.rdma_device_files = network.verbs_library = true;
  EXPECT_EQ(said_of("network.rdma", network), "ok");
  network.variables["NCCL_IB_HCA"] = "mlx4";
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-hca-unknown");
  network.variables["NCCL_IB_HCA"] = "=mlx5_1:1";
  EXPECT_EQ(said_of("network.rdma", network), "ok");
  network.rdma[1].state = "DOWN";
  EXPECT_EQ(said_of("network.rdma", network), "note ib-ports-down");
  network.verbs_library = false;
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-no-library");
  network.rdma_device_files = false;
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-no-device-files");
  network.variables["NCCL_IB_DISABLE"] = "1";
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-disabled");
  network.rdma[0].state = "INIT";
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-ports-down");
  EXPECT_EQ(said_of("network.rdma", network, for_cpu()), "ok");
  network.rdma.clear();
  EXPECT_EQ(said_of("network.rdma", network), "warning ib-hca-unknown");
}

TEST(NetworkProbes, VariablesAndClock) {
  NetworkEvidence network = good_network();
  network.variables["NCCL_DEBUG"] = "WARN";
  EXPECT_EQ(said_of("network.variables", network), "note");
  network.variables["NCCL_SOCKET_FAMILY"] = "ipv4";
  EXPECT_EQ(said_of("network.variables", network), "warning nccl-variable-odd");
  network.clock.synchronized = false;
  EXPECT_EQ(said_of("network.clock", network), "note clock-unsynchronised");
  network.clock.now = 1000;
  EXPECT_EQ(said_of("network.clock", network), "warning clock-wrong");
}

TEST(NetworkEvidence, InfiniBandIsReadFromAMadeUpMachine) {
  FakeRoot root;
  root.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  root.write("dev/infiniband/uverbs0", "");
  DoctorOptions options;
  options.root = root.path();
  options.quick = true;
  const NetworkEvidence network = gather_network(options);
  ASSERT_EQ(network.rdma.size(), 2U);
  EXPECT_EQ(network.rdma[0].state, "ACTIVE");
  EXPECT_EQ(network.rdma[0].rate, "200 Gb/sec (4X HDR)");
  EXPECT_EQ(network.rdma[1].state, "DOWN");
  EXPECT_TRUE(network.rdma_device_files);
  EXPECT_FALSE(network.own_name.asked);
}

TEST(TryToReach, TellsOpenRefusedAndUnresolvedApart) {
  const auto here = resolve("127.0.0.1", 0, std::chrono::milliseconds(10), [] { return false; });
  ASSERT_FALSE(here.addresses.empty());
  Descriptor listener = listen_on(here.addresses.front());
  ASSERT_TRUE(listener.open());
  const std::string target = "127.0.0.1:" + std::to_string(bound_port(listener.get()));
  const std::chrono::milliseconds patience(500);
  EXPECT_EQ(try_to_reach(target, patience).outcome, "open");
  listener.reset();
  EXPECT_EQ(try_to_reach(target, patience).outcome, "refused");
  EXPECT_EQ(try_to_reach("no-such-host.invalid:1", patience).outcome, "unresolved");
  EXPECT_FALSE(try_to_reach("127.0.0.1", patience).port_given);
  EXPECT_FALSE(try_to_reach("[::1]", patience).port_given);
  EXPECT_TRUE(try_to_reach("[::1]:5", patience).port_given);
}

}  // namespace
}  // namespace trainctl::doctor
