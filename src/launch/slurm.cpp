#include "trainctl/launch/slurm.h"

#include <charconv>
#include <numeric>

#include "launch/variable_reader.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

// Step numbers from here on are Slurm's own: the batch script, an interactive shell and others.
constexpr int64_t kFirstSpecialStep = 4294967280;

// Below the ports that the kernel gives to those who ask for any (32768 and above).
constexpr int64_t kFirstPort = 15000;
constexpr int64_t kPorts = 15000;

// The step's own value, else the one that in a step means the same.
std::string step_name(const VariableReader& variables, const std::string& own,
                      const std::string& fallback) {
  return variables.text(own) ? own : fallback;
}

bool is_step(const VariableReader& variables) {
  const auto id = variables.text(step_name(variables, "SLURM_STEP_ID", "SLURM_STEPID"));
  if (!id) return variables.text("SLURM_STEP_NUM_TASKS").has_value();
  if (id->starts_with('-')) return false;  // special ones, printed as signed numbers
  const auto number = variables.number(step_name(variables, "SLURM_STEP_ID", "SLURM_STEPID"));
  return number && *number < kFirstSpecialStep;
}

// Steps of one job and jobs that follow each other get different ones; a port that Slurm itself has
// reserved for the step comes first (srun --resv-ports).
int64_t port_of(const VariableReader& variables, const SlurmStep& step) {
  if (const auto reserved = variables.text("SLURM_STEP_RESV_PORTS")) {
    int64_t port = 0;
    std::from_chars(reserved->data(), reserved->data() + reserved->size(), port);
    if (port > 0 && port <= 65535) return port;
  }
  int64_t job = 0, number = 0;
  std::from_chars(step.job_id.data(), step.job_id.data() + step.job_id.size(), job);
  std::from_chars(step.step_id.data(), step.step_id.data() + step.step_id.size(), number);
  return kFirstPort + (job % kPorts * 61 + number % kPorts) % kPorts;
}

[[noreturn]] void contradiction(const VariableReader& variables, const std::string& a,
                                const std::string& b, const std::string& meaning) {
  throw usage_error(variables.saying(a) + ", but " + variables.saying(b) + ": " + meaning);
}

// A batch job submitted from inside a step carries that step's variables along.
void refuse_leftovers(const VariableReader& variables) {
  const auto step = variables.text("SLURM_STEP_TASKS_PER_NODE");
  const auto current = variables.text("SLURM_TASKS_PER_NODE");
  if (!step || !current || *step == *current) return;
  contradiction(
      variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
      "the step's variables are left over from another job, from inside of which this one was "
      "submitted; put 'unset ${!SLURM_STEP@}' before trainctl, or submit with sbatch "
      "--export=NONE");
}

// The variables of such a step describe the component that a task is part of: what the other
// components run would be taken for other runs, or not be found.
void refuse_heterogeneous(const VariableReader& variables) {
  for (const char* name : {"SLURM_HET_SIZE", "SLURM_PACK_SIZE", "SLURM_JOB_NODELIST_HET_GROUP_1"}) {
    const auto value = variables.text(name);
    if (!value || value == "1") continue;
    throw usage_error(
        variables.saying(name) +
        ": this is a step of a heterogeneous Slurm job, whose components know only their own "
        "tasks; "
        "trainctl needs a job of one component (no ':' and no #SBATCH hetjob). For a step that "
        "runs "
        "in one component alone, take the variables away: srun --het-group=0 env -u SLURM_HET_SIZE "
        "-u SLURM_JOB_NODELIST_HET_GROUP_1 trainctl …");
  }
}

void read_layout(const VariableReader& variables, const std::string& because, SlurmStep* step) {
  const std::string layout =
      step_name(variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  const auto text = variables.text(layout);
  if (!text) {
    if (step->node_count > 1) variables.required(layout, because);
    step->local_task_count = step->task_count;
    return;
  }
  const std::vector<int64_t> tasks = parse_tasks_per_node(*text, layout);
  if (static_cast<int64_t>(tasks.size()) != step->node_count) {
    contradiction(variables, layout, step_name(variables, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
                  "these are not as many nodes");
  }
  if (std::accumulate(tasks.begin(), tasks.end(), int64_t{0}) != step->task_count) {
    contradiction(variables, layout, step_name(variables, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
                  "these are not as many tasks");
  }
  step->local_task_count = tasks[static_cast<size_t>(step->node)];
}

void read_nodes(const VariableReader& variables, SlurmStep* step) {
  const std::string list = step_name(variables, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  const auto text = variables.text(list);
  if (!text) {
    if (const auto address = variables.text("MASTER_ADDR")) {
      step->first_node = *address;
      step->node_list = variables.saying("MASTER_ADDR");
      return;
    }
    throw usage_error(variables.saying("SLURM_STEP_NUM_TASKS") +
                      ", but neither SLURM_STEP_NODELIST nor "
                      "SLURM_JOB_NODELIST is set: set MASTER_ADDR to the first node's name");
  }
  const std::vector<std::string> nodes = parse_node_list(*text, list);
  step->first_node = nodes.front();
  step->node_list = variables.saying(list);
  if (list == "SLURM_STEP_NODELIST" && static_cast<int64_t>(nodes.size()) != step->node_count) {
    contradiction(variables, list, step_name(variables, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
                  "these are not as many nodes");
  }
}

int64_t job_nodes(const VariableReader& variables) {
  return variables.number(step_name(variables, "SLURM_JOB_NUM_NODES", "SLURM_NNODES"), 1)
      .value_or(1);
}

[[noreturn]] void refuse_flag(const std::string& flag, int64_t given, const std::string& variable,
                              int64_t value, const std::string& cure) {
  throw usage_error(flag + " is " + std::to_string(given) + ", but Slurm's " + variable + " is " +
                    std::to_string(value) + "; " + cure);
}

SlurmLaunchPlace place_in_step(const SlurmStep& step, const LaunchPlaceFlags& flags) {
  if (flags.node_count && *flags.node_count != step.node_count) {
    refuse_flag(
        flags.node_count_source, *flags.node_count, "SLURM_STEP_NUM_NODES", step.node_count,
        "leave " + flags.node_count_source + " out, or ask Slurm for as many (#SBATCH --nodes)");
  }
  if (flags.node_rank && *flags.node_rank != step.node) {
    refuse_flag(flags.node_rank_source, *flags.node_rank, "SLURM_NODEID", step.node,
                "leave it out: srun numbers the nodes");
  }
  return {step.node, step.node_count, Endpoint{step.first_node, step.port}, step.node_list,
          step.run_id()};
}

}  // namespace

std::optional<SlurmStep> read_slurm_step(const EnvironmentLookup& variable) {
  const VariableReader variables(variable);
  if (!is_step(variables)) return std::nullopt;
  refuse_heterogeneous(variables);
  SlurmStep step;
  step.job_id = variables.text(step_name(variables, "SLURM_JOB_ID", "SLURM_JOBID")).value_or("0");
  step.step_id =
      variables.text(step_name(variables, "SLURM_STEP_ID", "SLURM_STEPID")).value_or("0");
  const std::string count = step_name(variables, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  const std::string because = variables.saying(count);
  step.task_count = variables.number(count, 1).value_or(1);
  if (step.task_count == 1) return step;
  refuse_leftovers(variables);
  const std::string nodes = step_name(variables, "SLURM_STEP_NUM_NODES", "SLURM_NNODES");
  step.task = variables.required("SLURM_PROCID", because);
  step.local_task = variables.required("SLURM_LOCALID", because);
  step.node_count = variables.number(nodes, 1).value_or(1);
  if (step.node_count > 1) step.node = variables.required("SLURM_NODEID", variables.saying(nodes));
  require_below(variables, "SLURM_PROCID", step.task, count, step.task_count);
  require_below(variables, "SLURM_NODEID", step.node, nodes, step.node_count);
  read_layout(variables, because, &step);
  require_below(variables, "SLURM_LOCALID", step.local_task,
                step_name(variables, "SLURM_STEP_TASKS_PER_NODE", count), step.local_task_count);
  read_nodes(variables, &step);
  step.port = port_of(variables, step);
  return step;
}

SlurmLaunchAdvice advise_launch(const EnvironmentLookup& variable, const LaunchPlaceFlags& flags) {
  const VariableReader variables(variable);
  SlurmLaunchAdvice advice;
  const auto step = read_slurm_step(variable);
  if (step && step->task_count > step->node_count) {
    throw usage_error(
        "srun has started " + counted(step->task_count, "task") + " on " +
        counted(step->node_count, "node") +
        " (SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES), several of them on one; trainctl "
        "launch starts a node's ranks itself: give srun --ntasks=" +
        std::to_string(step->node_count) +
        " --ntasks-per-node=1, or have srun start the ranks, one task per GPU, with "
        "srun trainctl run");
  }
  if (step && step->task_count > 1) {
    advice.place = place_in_step(*step, flags);
    return advice;
  }
  if (!variables.text("SLURM_JOB_ID")) return advice;
  const int64_t nodes = job_nodes(variables);
  if (flags.node_count && *flags.node_count > nodes) {
    refuse_flag(flags.node_count_source, *flags.node_count, "SLURM_JOB_NUM_NODES", nodes,
                "ask Slurm for as many nodes (#SBATCH --nodes), or launch on fewer");
  }
  if (!step && nodes > 1) {
    advice.warning = "this job has " + std::to_string(nodes) +
                     " nodes (SLURM_JOB_NUM_NODES), but this launcher was started without srun and "
                     "reaches its own node only; srun --ntasks=" +
                     std::to_string(nodes) +
                     " --ntasks-per-node=1 trainctl launch … starts one on each";
  }
  return advice;
}

}  // namespace trainctl
