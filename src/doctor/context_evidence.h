// What this program is, what it runs on, and what its environment asks of it.
#pragma once

#include <cstdint>
#include <map>

#include "doctor/group.h"

namespace trainctl::doctor {

struct Program {
  std::string version, build, compiler, build_type, sanitizers, torch, torch_cuda;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Program, version, build, compiler, build_type,
                                                sanitizers, torch, torch_cuda)

struct System {
  std::string distribution, kernel, machine, glibc, container;
  std::string product;  // what the firmware calls the machine
  bool virtual_machine = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(System, distribution, kernel, machine, glibc,
                                                container, product, virtual_machine)

struct Processor {
  std::string model;
  std::vector<std::string> instructions;  // those that matter here, by /proc/cpuinfo's names
  int64_t numa_nodes = 1;
  std::string governor, frequency_driver;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Processor, model, instructions, numa_nodes,
                                                governor, frequency_driver)

struct PlaceInJob {
  std::string source;   // who says so: torchrun, srun …; empty: a process by itself
  std::string problem;  // what trainctl run would refuse it with
  int64_t rank = 0, world_size = 1;
  bool slurm_step = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PlaceInJob, source, problem, rank, world_size,
                                                slurm_step)

struct ContextEvidence {
  Program program;
  System system;
  Processor processor;
  int64_t usable_processors = 1;
  std::map<std::string, std::string> variables;
  std::vector<std::string> missing_preloads;  // of LD_PRELOAD: files that are not there
  PlaceInJob place;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ContextEvidence, program, system, processor,
                                                usable_processors, variables, missing_preloads,
                                                place)

ContextEvidence gather_context(const fs::path& root);

}  // namespace trainctl::doctor
