// What this program is, what it runs on, and what the environment asks of it.
#include <algorithm>
#include <array>

#include "doctor/context_evidence.h"
#include "doctor/context_variables.h"
#include "doctor/groups.h"
#include "doctor/small_files.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

ContextEvidence context_of(const Evidence& evidence) {
  return evidence_of<ContextEvidence>(evidence, "context");
}

Finding fine(const std::string& found, Verdict verdict = Verdict::kOk) {
  return {verdict, found, "", "", ""};
}

std::string not_empty(const std::string& text) { return text.empty() ? "not known" : text; }

Finding judge_program(const Evidence& evidence, const DoctorOptions&) {
  const Program program = context_of(evidence).program;
  std::string found =
      "trainctl " + program.build + ", " + program.compiler + " " + program.build_type;
  if (!program.torch.empty()) found += ", LibTorch " + program.torch;
  if (program.torch_cuda == "none")
    found += " without CUDA";
  else if (!program.torch_cuda.empty())
    found += " for CUDA " + program.torch_cuda;
  if (!program.sanitizers.empty()) found += ", sanitizers " + program.sanitizers;
  const bool slow = program.build_type == "Debug" || !program.sanitizers.empty();
  if (!slow) return fine(found);
  return wrong(Verdict::kWarning, found, "slow-build",
               {{"kind", program.sanitizers.empty() ? "as Debug, without optimisation"
                                                    : "with sanitizers"}});
}

Finding judge_system(const Evidence& evidence, const DoctorOptions&) {
  const System system = context_of(evidence).system;
  return fine(not_empty(system.distribution) + ", Linux " + system.kernel + " " + system.machine +
              ", glibc " + system.glibc);
}

Finding judge_container(const Evidence& evidence, const DoctorOptions&) {
  const System system = context_of(evidence).system;
  std::vector<std::string> layers;
  if (!system.container.empty()) layers.push_back("container (" + system.container + ")");
  if (system.virtual_machine) layers.emplace_back("virtual machine");
  if (!system.product.empty()) layers.push_back(system.product);
  return fine(layers.empty() ? "no container" : join(layers, ", "));
}

bool has_instruction(const Processor& processor, const char* name) {
  const auto& all = processor.instructions;
  return std::find(all.begin(), all.end(), name) != all.end();
}

Finding judge_processor(const Evidence& evidence, const DoctorOptions&) {
  const ContextEvidence context = context_of(evidence);
  const Processor& processor = context.processor;
  const bool fast_bf16 = has_instruction(processor, "avx512_bf16") ||
                         has_instruction(processor, "amx_bf16") ||
                         has_instruction(processor, "bf16");
  std::vector<std::string> widest;
  for (const char* name : {"amx_bf16", "avx512_bf16", "avx512f", "avx2", "sve2", "sve", "bf16"}) {
    if (has_instruction(processor, name)) widest.emplace_back(name);
  }
  const std::string found = processor.model + (widest.empty() ? "" : ", " + join(widest, " ")) +
                            (fast_bf16 ? ", bf16 is fast" : ", bf16 is slow");
  if (context.system.machine != "x86_64" || has_instruction(processor, "avx2")) return fine(found);
  return wrong(Verdict::kWarning, found, "no-avx2");
}

Finding judge_numa(const Evidence& evidence, const DoctorOptions&) {
  const int64_t nodes = context_of(evidence).processor.numa_nodes;
  return fine(std::to_string(nodes) + (nodes == 1 ? " memory node" : " memory nodes"));
}

Finding judge_governor(const Evidence& evidence, const DoctorOptions&) {
  const Processor processor = context_of(evidence).processor;
  if (processor.governor.empty()) return fine("not told");
  const std::string found = processor.governor + " (" + processor.frequency_driver + ")";
  // The "powersave" of the drivers that steer themselves still goes up to the highest frequency.
  const bool own = processor.frequency_driver.starts_with("intel_pstate") ||
                   processor.frequency_driver.starts_with("amd-pstate") ||
                   processor.frequency_driver.starts_with("amd_pstate");
  if (processor.governor != "powersave" || own) return fine(found);
  return wrong(Verdict::kWarning, found, "governor-powersave");
}

Finding odd(const OddVariable& variable, Verdict verdict, const char* explanation) {
  return wrong(verdict, variable.name + "=" + variable.value, explanation,
               {{"name", variable.name},
                {"value", variable.value},
                {"effect", variable.effect},
                {"cure", variable.cure}});
}

Finding judge_threads(const Evidence& evidence, const DoctorOptions&) {
  const ContextEvidence context = context_of(evidence);
  const auto trouble = wrong_thread_setting(context.variables, context.usable_processors);
  if (trouble) return odd(*trouble, Verdict::kWarning, "threads-odd");
  const std::string omp = value_of(context.variables, "OMP_NUM_THREADS");
  if (omp.empty()) return fine("not set: each rank takes its share of the processors");
  return fine("OMP_NUM_THREADS=" + omp, number_in(omp).value_or(1) < context.usable_processors
                                            ? Verdict::kNote
                                            : Verdict::kOk);
}

Finding judge_slow(const Evidence& evidence, const DoctorOptions&) {
  const std::vector<OddVariable> slow = slow_variables(context_of(evidence).variables);
  if (slow.empty()) return fine("none");
  std::vector<std::string> names, effects;
  for (const OddVariable& variable : slow) {
    names.push_back(variable.name + "=" + variable.value);
    effects.push_back(variable.name + ": " + variable.effect);
  }
  std::vector<std::string> only_names;
  for (const OddVariable& variable : slow) only_names.push_back(variable.name);
  return wrong(Verdict::kWarning, join(names, " "), "slow-variables",
               {{"effects", join(effects, "; ")}, {"names", join(only_names, " ")}});
}

Finding judge_allocator(const Evidence& evidence, const DoctorOptions& options) {
  const Variables variables = context_of(evidence).variables;
  const auto trouble = wrong_allocator_setting(variables);
  if (trouble) {
    return odd(*trouble, options.device == "cpu" ? Verdict::kWarning : Verdict::kUnfit,
               "allocator-setting-odd");
  }
  std::string value = value_of(variables, "PYTORCH_CUDA_ALLOC_CONF");
  if (value.empty()) value = value_of(variables, "PYTORCH_ALLOC_CONF");
  return fine(value.empty() ? "not set" : value, value.empty() ? Verdict::kOk : Verdict::kNote);
}

Finding judge_preload(const Evidence& evidence, const DoctorOptions&) {
  const ContextEvidence context = context_of(evidence);
  const std::string list = value_of(context.variables, "LD_PRELOAD");
  if (list.empty()) return fine("none");
  if (context.missing_preloads.empty()) return fine(list, Verdict::kNote);
  return wrong(Verdict::kWarning, list, "preload-missing",
               {{"files", join(context.missing_preloads, ", ")}});
}

Finding judge_place(const Evidence& evidence, const DoctorOptions&) {
  const PlaceInJob place = context_of(evidence).place;
  if (!place.problem.empty())
    return wrong(Verdict::kUnfit, "contradicting variables", "launch-variables-odd",
                 {{"why", place.problem}});
  if (place.world_size <= 1) return fine("a process by itself");
  return fine("rank " + std::to_string(place.rank) + " of " + std::to_string(place.world_size) +
              ", says " + place.source);
}

Finding judge_slurm(const Evidence& evidence, const DoctorOptions&) {
  const ContextEvidence context = context_of(evidence);
  const std::string job = value_of(context.variables, "SLURM_JOB_ID");
  if (job.empty()) return fine("no job");
  const std::string tasks = value_of(context.variables, "SLURM_NTASKS");
  const std::string nodes = value_of(context.variables, "SLURM_JOB_NUM_NODES");
  std::string found = "job " + job;
  if (!nodes.empty()) found += ", nodes " + nodes;
  if (!tasks.empty()) found += ", tasks " + tasks;
  if (context.place.slurm_step) return fine(found + ", in a step of srun");
  const bool several = number_in(tasks).value_or(1) > 1 || number_in(nodes).value_or(1) > 1;
  if (!several) return fine(found + ", in its batch script or shell");
  return wrong(
      Verdict::kNote, found + ", in its batch script or shell", "slurm-without-srun",
      {{"tasks", tasks.empty() ? "several" : tasks}, {"nodes", nodes.empty() ? "1" : nodes}});
}

Finding judge_kubernetes(const Evidence& evidence, const DoctorOptions&) {
  const ContextEvidence context = context_of(evidence);
  const bool pod = context.system.container == "kubernetes" ||
                   !value_of(context.variables, "KUBERNETES_SERVICE_HOST").empty();
  return fine(pod ? "in a pod" : "no pod");
}

constexpr std::array kProbes = {
    Probe{"context.program", "program", judge_program},
    Probe{"context.system", "system", judge_system},
    Probe{"context.container", "container", judge_container},
    Probe{"context.processor", "processor", judge_processor},
    Probe{"context.numa", "NUMA", judge_numa},
    Probe{"context.governor", "frequency governor", judge_governor},
    Probe{"context.place", "place among ranks", judge_place},
    Probe{"context.slurm", "Slurm", judge_slurm},
    Probe{"context.kubernetes", "Kubernetes", judge_kubernetes},
    Probe{"context.threads", "threads", judge_threads},
    Probe{"context.slow_variables", "slowing variables", judge_slow},
    Probe{"context.allocator", "CUDA allocator", judge_allocator},
    Probe{"context.preload", "preloaded libraries", judge_preload},
};

Json gather(const DoctorOptions& options) { return to_evidence(gather_context(options.root)); }

}  // namespace

Group context_group() { return {"context", gather, kProbes, true}; }

}  // namespace trainctl::doctor
