#include "doctor/context_evidence.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "doctor/small_files.h"
#include "launch/cpu_share.h"
#include "trainctl/base/host.h"
#include "trainctl/base/version.h"
#include "trainctl/launch/process_world.h"
#include "trainctl/launch/slurm.h"

extern char** environ;

namespace trainctl::doctor {
namespace {

// Whole names, and beginnings where they end with '_'. No tokens, passwords or names of people:
// evidence is shown, saved with runs and sent to others.
constexpr const char* kVariables[] = {"OMP_",
                                      "GOMP_",
                                      "KMP_",
                                      "MKL_",
                                      "DNNL_",
                                      "ONEDNN_",
                                      "OPENBLAS_NUM_THREADS",
                                      "ATEN_",
                                      "TORCH_",
                                      "PYTORCH_",
                                      "TORCHELASTIC_",
                                      "NCCL_",
                                      "GLOO_",
                                      "UCX_",
                                      "CUDA_",
                                      "CUDNN_",
                                      "CUBLAS_",
                                      "NVIDIA_",
                                      "MALLOC_",
                                      "GLIBC_TUNABLES",
                                      "LD_LIBRARY_PATH",
                                      "LD_PRELOAD",
                                      "RANK",
                                      "LOCAL_RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_WORLD_SIZE",
                                      "GROUP_RANK",
                                      "GROUP_WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "TMPDIR",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_RANK",
                                      "PMI_SIZE",
                                      "PMI_RANK",
                                      "KUBERNETES_SERVICE_HOST",
                                      "SLURM_JOB_ID",
                                      "SLURM_JOB_NUM_NODES",
                                      "SLURM_NNODES",
                                      "SLURM_JOB_NODELIST",
                                      "SLURM_NTASKS",
                                      "SLURM_TASKS_PER_NODE",
                                      "SLURM_CPUS_PER_TASK",
                                      "SLURM_CPUS_ON_NODE",
                                      "SLURM_PROCID",
                                      "SLURM_LOCALID",
                                      "SLURM_NODEID",
                                      "SLURM_STEP_ID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_STEP_NUM_NODES",
                                      "SLURM_STEP_NODELIST",
                                      "SLURM_STEP_TASKS_PER_NODE",
                                      "SLURM_GPUS_ON_NODE",
                                      "SLURM_JOB_GPUS",
                                      "SLURM_MEM_PER_NODE",
                                      "SLURM_MEM_PER_CPU",
                                      "SLURM_CPU_BIND",
                                      "SLURM_JOB_PARTITION"};

bool is_wanted(const std::string& name) {
  return std::any_of(std::begin(kVariables), std::end(kVariables), [&](const std::string& wanted) {
    return wanted.ends_with('_') ? name.starts_with(wanted) : name == wanted;
  });
}

std::map<std::string, std::string> variables() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t sign = text.find('=');
    if (sign == std::string::npos || !is_wanted(text.substr(0, sign))) continue;
    found[text.substr(0, sign)] = text.substr(sign + 1);
  }
  return found;
}

Program program() {
  return {kVersion, kBuildId, kCompiler, kBuildType, kSanitizers, kTorchVersion, kTorchCuda};
}

System system_of(const fs::path& root, const std::string& cpu_flags) {
  System system;
  for (const auto& [key, value] : key_values(root / "etc/os-release", '=')) {
    if (key == "PRETTY_NAME") system.distribution = value;
  }
  std::erase(system.distribution, '"');
  struct utsname name = {};
  if (::uname(&name) == 0) {
    system.kernel = name.release;
    system.machine = name.machine;
  }
  system.glibc = ::gnu_get_libc_version();
  system.container = container_kind(root);
  system.product = trimmed(first_line_of(root / "sys/class/dmi/id/sys_vendor") + " " +
                           first_line_of(root / "sys/class/dmi/id/product_name"));
  system.virtual_machine = (" " + cpu_flags + " ").find(" hypervisor ") != std::string::npos;
  return system;
}

// Of the first processor: "flags" on x86, "Features" on ARM. Large machines have megabytes of it.
std::string flags_of(const fs::path& root) {
  const auto values = key_values(root / "proc/cpuinfo", ':');
  for (const char* key : {"flags", "Features"}) {
    const auto found = values.find(key);
    if (found != values.end()) return found->second;
  }
  return "";
}

Processor processor_of(const fs::path& root, const std::string& flags) {
  static constexpr const char* kMatters[] = {
      "avx",         "avx2",        "fma",      "f16c",     "avx512f",  "avx512bw", "avx512_vnni",
      "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16",
      "asimd",       "asimdhp",     "bf16",     "i8mm",     "sve",      "sve2"};
  Processor processor;
  processor.model = cpu_model_name(root);
  const std::string padded = " " + flags + " ";
  for (const char* name : kMatters) {
    if (padded.find(std::string(" ") + name + " ") != std::string::npos)
      processor.instructions.emplace_back(name);
  }
  const auto nodes = parse_cpu_list(first_line_of(root / "sys/devices/system/node/online"));
  processor.numa_nodes = std::max<int64_t>(1, static_cast<int64_t>(nodes.size()));
  const fs::path frequency = root / "sys/devices/system/cpu/cpu0/cpufreq";
  processor.governor = first_line_of(frequency / "scaling_governor");
  processor.frequency_driver = first_line_of(frequency / "scaling_driver");
  return processor;
}

PlaceInJob place() {
  PlaceInJob place;
  try {
    const EnvironmentLookup lookup = process_environment();
    place.slurm_step = read_slurm_step(lookup).has_value();
    const ProcessWorld world = read_process_world(lookup);
    place.source = world.source;
    place.rank = world.rank;
    place.world_size = world.world_size;
  } catch (const UserError& error) {
    place.problem = error.what();
  }
  return place;
}

// Names without a slash are looked up by the loader's own rules.
std::vector<std::string> missing_preloads(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> missing;
  const auto list = variables.find("LD_PRELOAD");
  if (list == variables.end()) return missing;
  std::string text = list->second;
  std::replace(text.begin(), text.end(), ':', ' ');
  std::istringstream names(text);
  std::error_code error;
  for (std::string name; names >> name;) {
    if (name.find('/') != std::string::npos && !fs::exists(name, error)) missing.push_back(name);
  }
  return missing;
}

}  // namespace

ContextEvidence gather_context(const fs::path& root) {
  ContextEvidence found;
  const std::string flags = flags_of(root);
  found.program = program();
  found.system = system_of(root, flags);
  found.processor = processor_of(root, flags);
  found.usable_processors = cpu_budget(root).usable;
  found.variables = variables();
  found.missing_preloads = missing_preloads(found.variables);
  found.place = place();
  return found;
}

}  // namespace trainctl::doctor
