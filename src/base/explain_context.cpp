#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> context_explanations() {
  static const ExplanationRow kRows[] = {
      {"slow-build",
       "This trainctl was built for finding faults",
       {},
       "it was built {kind}, and is several times slower than a release build",
       "build it with scripts/setup.sh and cmake --preset release",
       "trainctl --version; trainctl doctor --json, context.program"},
      {"no-avx2",
       "The processor has no AVX2",
       {"illegal instruction"},
       "LibTorch's fast kernels need AVX2, and this processor does not offer it; a virtual machine "
       "may hide what the real one has",
       "give the virtual machine the host's processor model (qemu: -cpu host), or use a newer "
       "machine",
       "grep -m1 flags /proc/cpuinfo"},
      {"governor-powersave",
       "The processor is held at its lowest frequency",
       {},
       "the frequency governor is powersave, and this driver then keeps the lowest frequency",
       "cpupower frequency-set -g performance (as root)",
       "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
      {"launch-variables-odd",
       "Variables of launchers contradict each other",
       {},
       "trainctl run would refuse to start: {why}",
       "if these variables are left over from another launch, unset them (RANK, WORLD_SIZE, "
       "LOCAL_RANK, MASTER_ADDR, MASTER_PORT); trainctl launch, torchrun and srun set them "
       "themselves",
       "env | grep -E 'RANK|WORLD|MASTER|SLURM_'"},
      {"slurm-without-srun",
       "A Slurm job of several tasks, but no step",
       {},
       "this job has {tasks} tasks on {nodes} nodes, but what is started here without srun runs "
       "once, on this node",
       "start it with srun: srun trainctl run CONFIG (one task for each GPU), or srun "
       "--ntasks-per-node=1 trainctl launch CONFIG",
       "env | grep SLURM_"},
      {"threads-odd",
       "A variable sets the threads wrongly",
       {},
       "{name} is '{value}': {effect}",
       "{cure}",
       "env | grep -E 'OMP|MKL|KMP'; OMP_DISPLAY_ENV=true"},
      {"slow-variables",
       "Variables for finding faults are set",
       {},
       "they slow a run down or fill its output: {effects}",
       "unset {names} when nothing is searched for any more",
       "env"},
      {"allocator-setting-odd",
       "The settings of LibTorch's CUDA allocator are wrong",
       {"unrecognized key '*allocator config", "unrecognized cachingallocator option"},
       "{name} is '{value}': {effect}, and LibTorch refuses to start CUDA",
       "{cure}",
       "echo $PYTORCH_CUDA_ALLOC_CONF $PYTORCH_ALLOC_CONF"},
      {"preload-missing",
       "LD_PRELOAD names files that are not there",
       {"from ld_preload cannot be preloaded"},
       "LD_PRELOAD names {files}, which every started program complains about and does without",
       "correct or unset LD_PRELOAD; inside of containers paths of the host mean nothing",
       "echo $LD_PRELOAD"},
  };
  return kRows;
}

}  // namespace trainctl
