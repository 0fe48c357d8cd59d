#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> limits_explanations() {
  static const ExplanationRow rows[] = {
      {"shm-small",
       "/dev/shm is too small for NCCL",
       {"error while creating shared memory segment", "posix_fallocate failed*no space left"},
       "NCCL keeps its buffers between the GPUs of one host in /dev/shm, 9.2 MiB for each channel "
       "and direction; {free} are free, and {gpus} GPUs may need {needed}",
       "start the container with --shm-size=1g (Kubernetes: an emptyDir volume with medium Memory "
       "at /dev/shm; a host: mount -o remount,size=1g /dev/shm), and remove files that ended runs "
       "have left there; NCCL_SHM_DISABLE=1 does without, more slowly",
       "df -h /dev/shm; the size stands in NCCL's message (size 9637888)"},
      {"shm-missing",
       "There is no usable /dev/shm",
       {"shm_open*function not implemented", "/dev/shm*permission denied"},
       "NCCL keeps its buffers between the GPUs of one host in /dev/shm, which is missing here or "
       "may not be written to",
       "mount it: mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm (in a container "
       "--shm-size=1g), or set NCCL_SHM_DISABLE=1",
       "ls -ld /dev/shm"},
      {"memlock-low",
       "The limit of locked memory is low, and there is InfiniBand",
       {},
       "InfiniBand and RoCE lock the memory they send from, and only {limit} may be locked: NCCL "
       "then fails to register its buffers",
       "raise it to unlimited: ulimit -l unlimited, a memlock line in "
       "/etc/security/limits.conf, docker run --ulimit memlock=-1, LimitMEMLOCK=infinity for "
       "slurmd",
       "ulimit -l"},
      {"open-files-low",
       "Few files may be open at once",
       {"too many open files"},
       "only {limit} files and sockets may be open at once; every rank holds sockets to the "
       "others, and a launcher pipes to each of its ranks",
       "raise it: ulimit -n 65536 (as far as the hard limit, {hard}, allows; above it "
       "/etc/security/limits.conf or docker run --ulimit nofile=65536)",
       "ulimit -n"},
      {"threads-few",
       "Few threads may be started",
       {"resource temporarily unavailable*thread", "thread*resource temporarily unavailable",
        "pthread_create failed", "libgomp: thread creation failed"},
       "{left} more threads may be started here, and one rank wants {needed}; the limit is {who}",
       "raise it (ulimit -u, pids.max, docker run --pids-limit=-1), end other processes, or start "
       "fewer ranks and threads",
       "ulimit -u; /sys/fs/cgroup/…/pids.max and pids.current"},
      {"stack-small",
       "The stack is small",
       {},
       "threads get a stack of {limit}, which deep calls inside of libraries overrun: they end by "
       "SIGSEGV",
       "set ulimit -s 8192 before the start",
       "ulimit -s"},
      {"address-space-limited",
       "The address space is limited",
       {},
       "a process may address only {limit}; CUDA reserves as many addresses as all GPUs and the "
       "host have memory together, and reports 'out of memory' when it may not",
       "lift it: ulimit -v unlimited; in a batch system the limit comes from the job's memory "
       "request or the login profile",
       "ulimit -v"},
      {"file-size-limited",
       "The size of files is limited",
       {"file too large"},
       "a file may become {limit} large, and a checkpoint beyond that ends the run",
       "lift it: ulimit -f unlimited",
       "ulimit -f"},
      {"memory-low",
       "Little memory is left",
       {},
       "{who} has {left} left; LibTorch alone takes 0.1 GiB, with CUDA 0.5, in every rank, and the "
       "model comes on top",
       "end other processes, or ask for more (docker run --memory, Slurm --mem, a Kubernetes "
       "memory limit)",
       "/proc/meminfo MemAvailable; memory.max and memory.current of the control group"},
      {"swap-in-use",
       "The machine is swapping",
       {},
       "{used} have been moved to swap: memory is short, and what is moved makes every step wait",
       "end what else needs memory; swapoff -a and swapon -a bring it back afterwards",
       "free -h; vmstat 1"},
      {"overcommit-strict",
       "Memory must be promised before it is used",
       {},
       "with vm.overcommit_memory=2 every reservation counts as if it were used, {left} are left, "
       "and CUDA and allocators reserve far more than they use",
       "set sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio",
       "/proc/meminfo CommitLimit and Committed_AS"},
      {"oom-killed",
       "Processes were killed because memory ran out",
       {},
       "the kernel has ended {count} of this control group's processes because its memory limit "
       "was reached; such a rank ends by SIGKILL and says nothing",
       "give the container or job more memory, or use less: smaller training.micro_batch_size, "
       "fewer ranks on this host",
       "memory.events of the control group; dmesg"},
      {"one-processor",
       "One processor for everything",
       {},
       "of {online} processors this process may use one, by {why}; computation, the reading of "
       "data and communication take turns on it",
       "ask for more: Slurm --cpus-per-task, docker run --cpus, a Kubernetes cpu limit, or look "
       "for a taskset or OMP_PROC_BIND around this program",
       "nproc; taskset -p $$; cpu.max of the control group"},
      {"cpu-throttled",
       "The processor quota makes processes wait",
       {},
       "this control group may use {quota} processors' worth of time, and its processes are made "
       "to wait for the next period when it is used up: all threads stop at once",
       "use no more threads than that (backend.threads), or raise the quota (docker run --cpus, a "
       "Kubernetes cpu limit)",
       "nr_throttled in cpu.stat of the control group"},
  };
  return rows;
}

}  // namespace trainctl
