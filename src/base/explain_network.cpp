#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> network_explanations() {
  static const ExplanationRow rows[] = {
      {"no-interface",
       "No network but loopback",
       {},
       "no interface with an address is up except loopback: runs on this host work, with others "
       "they do not",
       "for runs over several hosts give the container a network (docker run --network host), or "
       "bring the interface up",
       "ip address"},
      {"loopback-broken",
       "This host cannot connect to itself",
       {},
       "a connection from 127.0.0.1 to itself fails ({why}), and launchers and ranks of one host "
       "meet there",
       "bring the loopback interface up: ip link set lo up; else look for a firewall or a sandbox "
       "that forbids sockets",
       "ip address show lo"},
      {"nccl-ifname-nothing",
       "NCCL_SOCKET_IFNAME selects no interface",
       {},
       "NCCL_SOCKET_IFNAME is '{rule}', and no running interface with an address fits; there are: "
       "{there}",
       "unset it, or name one of those; several are divided by commas and are prefixes, '=eth0' "
       "means exactly that one, '^docker' all but those",
       "ip address; NCCL_DEBUG=INFO prints 'NET/Socket : Using …'"},
      {"nccl-interface-virtual",
       "NCCL would take a virtual interface",
       {},
       "of the interfaces here ({there}) NCCL takes {name} first, which looks like a bridge or "
       "tunnel that other hosts cannot reach",
       "name the right one on every host: NCCL_SOCKET_IFNAME=eth0 (and GLOO_SOCKET_IFNAME)",
       "NCCL_DEBUG=INFO prints 'NET/Socket : Using …'"},
      {"gloo-ifname-unknown",
       "GLOO_SOCKET_IFNAME names no interface of this host",
       {},
       "GLOO_SOCKET_IFNAME names '{name}', which is no interface with an address that is up here; "
       "there are: {there}",
       "unset it: ranks then take the interface that leads to MASTER_ADDR; or name one of those "
       "(whole names, divided by commas)",
       "ip address"},
      {"own-name-unresolved",
       "This host's own name does not resolve",
       {},
       "the name '{name}' has no address here ({why}); trainctl does without, but torchrun, "
       "PyTorch's Gloo and MPI look it up to learn their own address",
       "add the name with this host's address to /etc/hosts, or set MASTER_ADDR and "
       "GLOO_SOCKET_IFNAME",
       "getent hosts $(hostname)"},
      {"own-name-loopback",
       "This host's own name means loopback",
       {},
       "the name '{name}' resolves to {address}, as Debian's /etc/hosts has it; trainctl asks the "
       "routing table instead, but torchrun and PyTorch's Gloo then offer other hosts an address "
       "that they cannot reach",
       "for such programs on several hosts put the real address into /etc/hosts or set "
       "GLOO_SOCKET_IFNAME; on one host there is nothing to do",
       "getent hosts $(hostname)"},
      {"name-service-slow",
       "Names take long to resolve",
       {},
       "it took {seconds} to look up this host's own name: a name server of /etc/resolv.conf does "
       "not answer, and every connection by name waits for it",
       "put the hosts of the run into /etc/hosts, or mend /etc/resolv.conf",
       "time getent hosts $(hostname)"},
      {"name-unresolved",
       "A host's name does not resolve",
       {"name or service not known", "temporary failure in name resolution",
        "no address associated with hostname"},
       "'{name}' has no address here: {why}",
       "look for a typing error, give the address in numbers, or add the name to /etc/hosts or the "
       "name server; in containers names of other containers resolve on a network of one's own "
       "only (docker network create)",
       "getent hosts NAME"},
      {"port-refused",
       "Nobody listens on the port",
       {},
       "the host answers, but refuses {target}: no program listens there (or a firewall rejects)",
       "start what should listen there first (rank 0, the launcher of node 0), and compare the "
       "ports of both sides",
       "on that host: ss -ltn"},
      {"host-silent",
       "No answer from a host or port",
       {"connection timed out"},
       "nothing came back from {target} within {seconds}: the host is down, or a firewall or "
       "security group drops what is sent to this port",
       "open all ports between the hosts of a run (NCCL and Gloo choose theirs freely), and see "
       "whether the host is up: ping, or nc -vz HOST PORT from there and here",
       "nc -vz HOST PORT"},
      {"host-unreachable",
       "There is no way to a host",
       {"no route to host", "network is unreachable"},
       "{target} cannot be reached: {why}",
       "compare the networks of both hosts (ip route), and take an address of the network that "
       "they share; a firewall may also answer so",
       "ip route get ADDRESS"},
      {"ib-ports-down",
       "InfiniBand ports are not active",
       {},
       "these ports are there but not active: {ports}; NCCL leaves them out, and without any takes "
       "slow TCP sockets",
       "look at the cable and the subnet manager (ibstat: State Active, Physical state LinkUp); "
       "for ports that are meant to be unused there is nothing to do",
       "/sys/class/infiniband/*/ports/*/state"},
      {"ib-disabled",
       "InfiniBand is switched off for NCCL",
       {},
       "NCCL_IB_DISABLE=1 makes NCCL take TCP sockets although InfiniBand ports are active",
       "unset NCCL_IB_DISABLE",
       "NCCL_DEBUG=INFO prints 'NET/IB : Using …' or 'NET/Socket : Using …'"},
      {"ib-no-device-files",
       "InfiniBand does not reach into this container",
       {},
       "the kernel has InfiniBand devices, but /dev/infiniband/uverbs* are missing here: NCCL "
       "takes TCP sockets without a word",
       "start the container with --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 "
       "(Kubernetes: the RDMA device plugin)",
       "ls /dev/infiniband"},
      {"ib-no-library",
       "The InfiniBand library is missing",
       {"failed to open libibverbs.so"},
       "the kernel has InfiniBand devices, but libibverbs.so.1 does not load, and NCCL takes TCP "
       "sockets without a word",
       "install it: apt-get install libibverbs1 ibverbs-providers, or dnf install libibverbs",
       "ldconfig -p | grep ibverbs"},
      {"ib-hca-unknown",
       "NCCL_IB_HCA names no device of this host",
       {},
       "NCCL_IB_HCA is '{hca}'; there are: {there}",
       "unset it, or name devices that are there; they are prefixes, '=mlx5_0' means exactly that "
       "one",
       "ls /sys/class/infiniband"},
      {"nccl-variable-odd",
       "An NCCL variable has a senseless value",
       {},
       "{name} is '{value}', and NCCL knows: {allowed}; others it ignores or misreads",
       "correct or unset it",
       "env | grep NCCL_"},
      {"nccl-variable-unknown",
       "An NCCL variable is misspelt",
       {},
       "NCCL reads no variable {name}, and takes no notice of it; {near} is one that it reads",
       "set {near} instead, or unset {name}",
       "env | grep NCCL_; NCCL_DEBUG=INFO prints those that were read"},
      {"proxy-for-localhost",
       "A proxy is set for this host's own addresses too",
       {},
       "http_proxy is set, and no_proxy does not name localhost; trainctl itself uses no proxy, "
       "but programs that speak HTTP to this host or its neighbours (etcd, dashboards) go through "
       "it",
       "set no_proxy=localhost,127.0.0.1 and add the hosts of the run",
       "env | grep -i proxy"},
      {"clock-unsynchronised",
       "The clock is not synchronised",
       {},
       "no time service keeps this host's clock: times in logs of several hosts do not fit "
       "together, and on shared file systems files may seem to come from the future",
       "for runs over several hosts start chronyd or systemd-timesyncd; in virtual machines and "
       "containers the host may do it unseen",
       "timedatectl; chronyc tracking"},
      {"clock-wrong",
       "The clock is wrong",
       {},
       "this host believes it is {now}, before this program was written",
       "set the clock (timedatectl set-ntp true); a dead battery sets it back at every start",
       "date"},
  };
  return rows;
}

}  // namespace trainctl
