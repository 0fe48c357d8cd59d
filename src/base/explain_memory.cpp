#include "base/explain_chapters.h"

namespace trainctl {

// What a run does about it depends on its config: it adds its own figures (train/out_of_memory.h).
std::span<const ExplanationRow> memory_explanations() {
  static const ExplanationRow kRows[] = {
      {"oom-killer",
       "The kernel killed a process for want of memory (exit code 137)",
       {"oom-kill", "oom_kill", "oomkilled", "out of memory: killed process",
        "memory cgroup out of memory", "exit code 137", "exited with code 137"},
       "the kernel's OOM killer ended the process: the host, the container or the job had no "
       "memory "
       "left for it",
       "give the job more memory (sbatch --mem, docker run --memory, resources.limits.memory), or "
       "start fewer ranks per host, lower training.micro_batch_size or data.prefetch",
       "oom_kill rises in /sys/fs/cgroup/memory.events of the control group or in /proc/vmstat; "
       "dmesg | grep -i oom names the process",
       ExitCode::kTrainingFailed},
      {"gpu-out-of-memory",
       "CUDA out of memory",
       {"cuda out of memory", "cuda error: out of memory", "cuda failure*out of memory",
        "would exceed allowed memory. (out of memory)", "cudaerrormemoryallocation",
        "cuda_error_out_of_memory"},
       "the GPU's memory does not hold what the step needs, or other processes hold part of it",
       "lower training.micro_batch_size (training.global_batch_size stays: accumulation makes up "
       "for it), then data.seq_len; precision.dtype \"bf16\" halves the activations; end other "
       "processes on the GPU (nvidia-smi); where much is reserved but unallocated, set "
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
       "the error's own figures: total, free, held by other processes, allocated and reserved by "
       "this one; nvidia-smi lists the processes",
       ExitCode::kTrainingFailed},
      {"address-space-limit",
       "Out of memory below a limit on address space (ulimit -v)",
       {},
       "this process is refused more address space (ulimit -v: {used} of {limit} are mapped), "
       "however much memory the machine has free",
       "raise the limit (ulimit -v unlimited; Slurm: VSizeFactor and PropagateResourceLimits), or "
       "lower training.micro_batch_size",
       "ulimit -v; VmSize in /proc/PID/status",
       ExitCode::kTrainingFailed},
      {"cpu-out-of-memory",
       "The host's memory is exhausted (can't allocate memory)",
       {"can't allocate memory", "cannot allocate memory", "std::bad_alloc",
        "memory allocation failed", "could not create a memory object"},
       "the system gave this process no more memory: the host's, the control group's or the "
       "process's own limit is reached",
       "lower training.micro_batch_size (training.global_batch_size stays: accumulation makes up "
       "for it) or data.seq_len; start fewer ranks on this host; raise the job's memory limit",
       "free -h, memory.max and memory.current in /sys/fs/cgroup, ulimit -v",
       ExitCode::kTrainingFailed},
  };
  return kRows;
}

}  // namespace trainctl
