#include "cli/world_environment.h"

#include <cstdlib>
#include <string>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

struct Variable {
  const char* name;
  const char* set_by;
};

constexpr Variable kWorldSizes[] = {
    {"WORLD_SIZE", "torchrun"},
    // Of the step that srun started; SLURM_NTASKS also stands in batch scripts, which run once.
    {"SLURM_STEP_NUM_TASKS", "srun"},
    {"SLURM_NTASKS", "Slurm"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun"},
    {"PMI_SIZE", "an MPI launcher"},
};

}  // namespace

void refuse_many_processes() {
  for (const Variable& variable : kWorldSizes) {
    const char* value = std::getenv(variable.name);
    if (value == nullptr || *value == '\0') continue;
    const std::string name = variable.name;
    if (name == "SLURM_NTASKS" && std::getenv("SLURM_STEP_NUM_TASKS") != nullptr) continue;
    if (std::string(value) == "1") continue;
    std::string message = name;
    message.append(" is ").append(value).append(" (set by ").append(variable.set_by);
    message += "): training with several processes is not in this version; start one, or unset ";
    message += name;
    message += " for a single run";
    throw usage_error(message);
  }
}

}  // namespace trainctl
