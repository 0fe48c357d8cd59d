#include "trainctl/launch/process_world.h"

#include <cstdlib>

#include "launch/variable_reader.h"
#include "trainctl/base/error.h"
#include "trainctl/launch/slurm.h"

namespace trainctl {
namespace {

constexpr int64_t kHighestPort = 65535;

int64_t port_of(const VariableReader& variables, const std::string& because) {
  const int64_t port = variables.required("MASTER_PORT", because, 1);
  if (port > kHighestPort) {
    throw usage_error(variables.saying("MASTER_PORT") + ", which is no port from 1 to " +
                      std::to_string(kHighestPort));
  }
  return port;
}

std::string address_of(const VariableReader& variables, const std::string& because) {
  const auto address = variables.text("MASTER_ADDR");
  if (!address) {
    throw usage_error(
        because +
        ", but MASTER_ADDR is not set: the ranks would not find rank 0; start them with "
        "trainctl launch, torchrun or srun, or set it to rank 0's host");
  }
  return *address;
}

// The host's number and the number of hosts, which not all launchers set.
void read_group(const VariableReader& variables, ProcessWorld* world) {
  const auto rank = variables.number("GROUP_RANK");
  const auto count = variables.number("GROUP_WORLD_SIZE", 1);
  if (count) {
    world->node_count = *count;
  } else {
    world->node_count = (world->world_size + world->local_world_size - 1) / world->local_world_size;
  }
  if (!rank) {
    world->node_rank = std::min(world->rank / world->local_world_size, world->node_count - 1);
    return;
  }
  if (count) require_below(variables, "GROUP_RANK", *rank, "GROUP_WORLD_SIZE", *count);
  world->node_rank = *rank;
}

// What torchrun sets, and our launcher.
ProcessWorld read_torchrun_variables(const VariableReader& variables) {
  ProcessWorld world;
  const std::string because = variables.saying("WORLD_SIZE");
  world.world_size = variables.required("WORLD_SIZE", variables.saying("RANK"), 1);
  world.run_id = variables.text("TORCHELASTIC_RUN_ID").value_or("none");
  world.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  world.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const bool elastic = variables.text("TORCHELASTIC_RUN_ID").has_value();
  world.source = variables.text("TRAINCTL_LAUNCH") ? "trainctl launch"
                 : elastic                         ? "torchrun"
                                                   : "the environment";
  if (world.world_size == 1) {
    require_below(variables, "RANK", variables.number("RANK").value_or(0), "WORLD_SIZE", 1);
    world.local_rank = variables.number("LOCAL_RANK").value_or(0);
    return world;
  }
  world.rank = variables.required("RANK", because);
  world.local_rank = variables.required("LOCAL_RANK", because);
  world.local_world_size = variables.required("LOCAL_WORLD_SIZE", because, 1);
  require_below(variables, "RANK", world.rank, "WORLD_SIZE", world.world_size);
  require_below(variables, "LOCAL_RANK", world.local_rank, "LOCAL_WORLD_SIZE",
                world.local_world_size);
  if (world.local_world_size > world.world_size) {
    throw usage_error(variables.saying("LOCAL_WORLD_SIZE") + ", but " + because +
                      ": a host cannot have more ranks than all hosts together");
  }
  read_group(variables, &world);
  world.master_addr = address_of(variables, because);
  world.master_port = port_of(variables, because);
  return world;
}

// Job scripts like to set these themselves; they must then say what srun says.
void require_agreement(const VariableReader& variables, const std::string& name,
                       int64_t slurm_value, const std::string& slurm_name) {
  const auto value = variables.number(name);
  if (!value || *value == slurm_value) return;
  throw usage_error(variables.saying(name) + ", but " + slurm_name + " is " +
                    std::to_string(slurm_value) + " in the step that srun has started; unset " +
                    name + ", or make the step as large (srun --ntasks, #SBATCH --ntasks)");
}

ProcessWorld read_slurm_variables(const VariableReader& variables, const SlurmStep& step) {
  require_agreement(variables, "WORLD_SIZE", step.task_count, "SLURM_STEP_NUM_TASKS");
  require_agreement(variables, "RANK", step.task, "SLURM_PROCID");
  require_agreement(variables, "LOCAL_RANK", step.local_task, "SLURM_LOCALID");
  ProcessWorld world;
  world.rank = step.task;
  world.world_size = step.task_count;
  world.local_rank = step.local_task;
  world.local_world_size = step.local_task_count;
  world.node_rank = step.node;
  world.node_count = step.node_count;
  world.master_addr = variables.text("MASTER_ADDR").value_or(step.first_node);
  world.master_port = variables.text("MASTER_PORT")
                          ? port_of(variables, variables.saying("SLURM_STEP_NUM_TASKS"))
                          : step.port;
  world.run_id = step.run_id();
  world.source = "srun";
  return world;
}

// MPI's launchers start copies that know nothing of each other here.
void refuse_mpi(const VariableReader& variables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    const auto value = variables.text(name);
    if (!value) continue;
    if (std::string(name) != "PMIX_RANK" && value == "1") return;
    throw usage_error(
        variables.saying(name) +
        ", so an MPI launcher (mpirun, mpiexec) has started this process; trainctl does "
        "not take ranks from MPI: use trainctl launch --nproc N on one host, srun in "
        "Slurm, or trainctl launch --nnodes N on several hosts (unset " +
        name + " for a single process)");
  }
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

ProcessWorld read_process_world(const EnvironmentLookup& variable) {
  const VariableReader variables(variable);
  const bool launched = variables.text("TORCHELASTIC_RUN_ID") || variables.text("TRAINCTL_LAUNCH");
  if (launched && variables.text("WORLD_SIZE")) return read_torchrun_variables(variables);
  const auto step = read_slurm_step(variable);
  if (step && step->task_count > 1) return read_slurm_variables(variables, *step);
  if (variables.text("WORLD_SIZE") || variables.text("RANK"))
    return read_torchrun_variables(variables);
  if (!step && !variables.text("SLURM_JOB_ID")) refuse_mpi(variables);
  return {};
}

}  // namespace trainctl
