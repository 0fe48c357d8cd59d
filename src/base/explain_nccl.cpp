#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> nccl_explanations() {
  static const ExplanationRow kRows[] = {
      {"nccl-shared-memory",
       "NCCL: unhandled system error, and /dev/shm is too small",
       {"nccl*/dev/shm", "failed to extend /dev/shm", "/dev/shm/nccl-*no space left"},
       "NCCL exchanges data between the GPUs of a host through /dev/shm, which has no room for it "
       "({shm})",
       "give it some gigabytes: docker run --shm-size=8g (or --ipc=host); Kubernetes: an emptyDir "
       "of medium Memory mounted at /dev/shm; else sudo mount -o remount,size=8g /dev/shm; "
       "NCCL_SHM_DISABLE=1 does without it, slower",
       "df -h /dev/shm"},
      {"nccl-open-files",
       "NCCL: too many open files",
       {"nccl*too many open files"},
       "NCCL opens some files and sockets for each pair of ranks, more than this process may "
       "(limit: {nofile})",
       "raise the limit before the start: ulimit -n 65536; docker run --ulimit nofile=65536; "
       "Slurm: "
       "PropagateResourceLimits; systemd: LimitNOFILE",
       "ulimit -n; Max open files in /proc/PID/limits"},
      {"nccl-infiniband",
       "NCCL: a call to InfiniBand (ibv_…) failed",
       {"ibv_reg_mr", "ibv_modify_qp", "ibv_create_qp", "ibv_create_cq", "ibv_alloc_pd",
        "ibv_open_device", "ibv_poll_cq", "got completion*error"},
       "InfiniBand or RoCE did not do what NCCL asked: locked memory is limited ({memlock}), a "
       "port "
       "is down, or the addresses (GID index) do not fit the network",
       "allow unlimited locked memory (ulimit -l unlimited; docker run --ulimit memlock=-1); check "
       "ibstat; on RoCE set NCCL_IB_GID_INDEX; NCCL_IB_HCA names the adapters to use, "
       "NCCL_IB_DISABLE=1 goes over TCP instead",
       "ibstat, ulimit -l, NCCL_DEBUG=INFO"},
      {"nccl-no-interface",
       "NCCL finds no network interface",
       {"bootstrap : no socket interface found", "no socket interface found",
        "nccl*no route to host", "nccl*network is unreachable"},
       "no interface reaches the other ranks, or NCCL_SOCKET_IFNAME ({ifname}) names none that "
       "exists",
       "set NCCL_SOCKET_IFNAME to the interface that reaches the others (ip -brief address lists "
       "them), on every host, or unset it",
       "NCCL_DEBUG=INFO prints the interfaces NCCL considers"},
      {"nccl-one-gpu-twice",
       "NCCL: Duplicate GPU detected",
       {"duplicate gpu detected"},
       "two ranks of one host use the same GPU, which NCCL refuses",
       "start at most as many ranks per host as GPUs are visible, and set backend.device to "
       "\"cuda\", so that each rank takes its own",
       "CUDA_VISIBLE_DEVICES and LOCAL_RANK of each rank",
       ExitCode::kUsage},
      {"nccl-versions",
       "NCCL: ranks of different versions",
       {"nccl*mismatched*version", "nccl version mismatch", "nccl*mismatch in info from procs",
        "nccl*message truncated"},
       "the ranks do not run the same NCCL, or not with the same NCCL_ variables",
       "use the same installation on every host; take other NCCL folders out of LD_LIBRARY_PATH; "
       "compare hosts with trainctl doctor --compare",
       "the run's header names NCCL's version; NCCL_DEBUG=VERSION prints it on every rank"},
      {"nccl-peer-lost",
       "NCCL: remote process exited or there was a network error",
       {"ncclremoteerror", "remote process exited or there was a network error",
        "nccl*connection closed by", "nccl*connection reset by peer", "nccl*broken pipe"},
       "another rank has ended, or the network to it has broken: this error is the echo",
       "look for the rank that ended first: trainctl launch names it, its own output says why",
       "the launcher's report; the first error by time in the logs of all ranks",
       ExitCode::kTrainingFailed},
      {"nccl-timeout",
       "NCCL: a collective operation timed out",
       {"watchdog caught collective operation timeout", "nccl*collective operation timeout",
        "nccl*timed out", "nccl*timeout"},
       "a rank did not come to an operation that the others wait in: it hangs, is far slower, or "
       "has "
       "taken another path",
       "see which rank is missing in the report of trainctl run; raise parallel.timeout if it may "
       "take so long; trainctl launch … doctor --preflight finds a slow or silent rank",
       "the report names each rank's last operation",
       ExitCode::kTrainingFailed},
      {"nccl-cuda-error",
       "NCCL: unhandled cuda error",
       {"nccl*unhandled cuda error", "ncclunhandledcudaerror"},
       "a call of CUDA's failed inside NCCL: mostly the GPU is out of memory for its buffers, its "
       "driver is too old for this NCCL, or peer access between GPUs is blocked (ACS, an IOMMU, a "
       "virtual machine)",
       "free GPU memory (smaller training.micro_batch_size); update the driver; NCCL_P2P_DISABLE=1 "
       "tells whether peer access is at fault; NCCL_DEBUG=INFO prints the call",
       "NCCL_DEBUG=INFO; nvidia-smi topo -p2p r"},
      {"nccl-system-error",
       "NCCL: unhandled system error",
       {"nccl*unhandled system error", "ncclsystemerror"},
       "a call to the operating system failed inside NCCL (/dev/shm: {shm}; open files: {nofile}; "
       "locked memory: {memlock}; NCCL_SOCKET_IFNAME: {ifname})",
       "run again with NCCL_DEBUG=INFO, which names the call, and trainctl doctor, which checks "
       "shared memory, limits, interfaces and InfiniBand",
       "NCCL_DEBUG=INFO; df -h /dev/shm; ulimit -n -l; ip -brief address"},
      {"nccl-invalid-usage",
       "NCCL: invalid usage, invalid argument or internal error",
       {"nccl*invalid usage", "ncclinvalidusage", "nccl*invalid argument", "ncclinternalerror",
        "nccl*internal error"},
       "NCCL was asked for something it refuses: mostly two ranks on one GPU, an NCCL_ variable "
       "with "
       "a bad value, or ranks with different settings",
       "unset NCCL_ variables that you do not need (env | grep NCCL); give each rank a GPU of its "
       "own; NCCL_DEBUG=WARN prints the reason",
       "NCCL_DEBUG=WARN"},
      {"store-port-in-use",
       "The port of the meeting point is in use (EADDRINUSE)",
       {"server socket has failed to listen*address already in use", "eaddrinuse",
        "address already in use"},
       "another program, or another run on this host, listens on the port where the ranks meet",
       "set another MASTER_PORT (trainctl launch chooses a free one by itself), or end the old run",
       "ss -ltnp 'sport = :PORT' names the program"},
      {"store-not-reached",
       "The ranks do not reach their meeting point (MASTER_ADDR:MASTER_PORT)",
       {"client socket has failed to connect", "client socket has timed out",
        "failed to connect/validate to host", "tcpstore*connection refused"},
       "nothing answers at MASTER_ADDR:MASTER_PORT: rank 0 has not started or has ended, the "
       "address "
       "is wrong, or a firewall stands between the hosts",
       "check that rank 0's host is up and named as others can resolve it; open the port between "
       "the "
       "hosts; trainctl doctor --host NAME:PORT tries it",
       "nc -vz ADDRESS PORT from the other host"},
      {"gloo-no-interface",
       "Gloo finds no interface or address",
       {"unable to find interface for", "unable to find address for",
        "unable to resolve hostname to a (local) address"},
       "Gloo wants the interface of the host's own name, and that name does not resolve to an "
       "address of this host, or GLOO_SOCKET_IFNAME ({gloo_ifname}) names an interface that is not "
       "there",
       "set GLOO_SOCKET_IFNAME to the interface that reaches the other hosts (ip -brief address), "
       "or "
       "mend the host's line in /etc/hosts",
       "getent hosts $(hostname); ip -brief address"},
      {"gloo-peer-lost",
       "Connection closed, reset or refused between ranks",
       {"connection closed by peer", "connection reset by peer", "application timeout caused pair",
        "failed to recv, got 0 bytes", "connectfullmesh failed", "connection refused"},
       "another rank has ended, or the network to it has broken: this error is the echo",
       "look for the rank that ended first: trainctl launch names it, its own output says why",
       "the launcher's report; the first error by time in the logs of all ranks",
       ExitCode::kTrainingFailed},
      {"gloo-timeout",
       "Timed out waiting for another rank",
       {"timed out waiting*for recv", "timed out waiting*for send", "timed out waiting*clients",
        "wait timeout after", "operation timed out!"},
       "a rank did not come to an operation that the others wait in: it hangs, is far slower, or "
       "its "
       "host or network is gone",
       "see which rank is missing in the report of trainctl run; raise parallel.timeout if it may "
       "take so long; trainctl launch … doctor --preflight finds a slow or silent rank",
       "the report names each rank's last operation",
       ExitCode::kTrainingFailed},
  };
  return kRows;
}

}  // namespace trainctl
