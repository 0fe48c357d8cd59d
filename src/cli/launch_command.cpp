// trainctl launch [flags] CONFIG.json | run … | script.py … | -- program …
#include <algorithm>

#include "cli/command.h"
#include "cli/doctor_arguments.h"
#include "cli/run_arguments.h"
#include "cli/terminal.h"
#include "trainctl/base/log.h"
#include "trainctl/config/load.h"
#include "trainctl/launch/launch.h"
#include "trainctl/launch/launch_defaults.h"
#include "trainctl/plan/plan.h"

namespace trainctl {
namespace {

constexpr const char* kLaunchUsage =
    "Starts several ranks of one program on this node and watches over them, as torchrun does.\n\n"
    "Usage:\n"
    "  trainctl launch [flags] CONFIG.json [flags of run]   train from a config\n"
    "  trainctl launch [flags] run CONFIG.json [flags]      the same\n"
    "  trainctl launch [flags] doctor --preflight           tries and times this machine's ranks\n"
    "  trainctl launch [flags] SCRIPT.py [arguments]        a Python script, as torchrun\n"
    "  trainctl launch [flags] -m MODULE [arguments]        a Python module\n"
    "  trainctl launch [flags] -- PROGRAM [arguments]       any program\n\n"
    "Flags (also with _ for -; TRAINCTL_<FLAG>, then PET_<FLAG> in the environment stand in for\n"
    "flags that are not given):\n";

constexpr const char* kLaunchEnd =
    "\nThe launcher ends with the exit code of the rank that failed first (128+n: killed by signal "
    "n),\n75 when the ranks stopped with a checkpoint, 128+n when signal n asked it to stop. "
    "SIGTERM, "
    "SIGINT,\nSIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to every rank; a second SIGTERM or SIGINT "
    "kills "
    "at once.\nMore in docs/launch.md.\n";

// Behind the config stand the flags of run. What both have (--dry-run) is taken as run's.
void refuse_launch_flags(const Arguments& words) {
  const auto both = {"--dry-run"};
  for (const std::string& word : words) {
    if (!is_launch_flag(word) || std::find(both.begin(), both.end(), word) != both.end()) continue;
    throw usage_error(word.substr(0, word.find('=')) +
                      " is a flag of launch: put it before the config, as in trainctl launch " +
                      word + " … config.json");
  }
}

// What is wrong with the config is found here, once, and not by every rank.
std::optional<int> check_run(LaunchJob* job) {
  RunArguments arguments;
  const Arguments& words = job->target.command;
  refuse_launch_flags(words);
  if (const auto done = parse_run_arguments({words.begin() + 1, words.end()}, &arguments))
    return done;
  const LoadedConfig loaded = load_config(arguments.config, arguments.overrides);
  job->device = loaded.config.backend.device;
  job->config_threads = loaded.config.backend.threads;
  job->agree = agreed_config(config_to_json(loaded.config));
  job->agree.emplace_back("--resume", arguments.resume);
  job->check_ranks = [config = loaded.config](int64_t ranks) {
    plan_batches(config.training, config.data.seq_len, WorldShape{ranks, 0});
  };
  return std::nullopt;
}

// A machine is diagnosed once; several ranks have something to measure together.
std::optional<int> check_doctor(LaunchJob* job) {
  DoctorArguments arguments;
  const Arguments& words = job->target.command;
  if (const auto done = parse_doctor_arguments({words.begin() + 1, words.end()}, &arguments))
    return done;
  if (!arguments.preflight) {
    throw usage_error(
        "launch starts ranks that work together, which 'trainctl doctor' has a use for with "
        "--preflight only; add it, or run doctor by itself");
  }
  job->device = arguments.options.device;
  return std::nullopt;
}

// The launcher queues its records with the ranks' lines; what follows it goes to the terminal
// again.
struct TerminalLogAgain {
  TerminalLogAgain() = default;
  ~TerminalLogAgain() { set_log_sink(terminal_log_sink()); }
  TerminalLogAgain(const TerminalLogAgain&) = delete;
  TerminalLogAgain& operator=(const TerminalLogAgain&) = delete;
};

}  // namespace

int launch_command(const Arguments& words) {
  const EnvironmentLookup environment = process_environment();
  const LaunchCommandLine line = parse_launch_command_line(words, environment);
  if (line.help) {
    terminal().print(kLaunchUsage + launch_flags_help() + kLaunchEnd);
    return 0;
  }
  for (const std::string& note : line.options.notes) log_info(note);
  LaunchJob job;
  job.options = line.options;
  apply_launch_defaults(environment, &job.options);
  job.target = resolve_target(line, environment);
  if (job.target.is_trainctl() && job.target.command[0] == "doctor") {
    if (const auto done = check_doctor(&job)) return *done;
  } else if (job.target.is_trainctl()) {
    if (const auto done = check_run(&job)) return *done;
  }
  const TerminalLogAgain after;
  return launch(job, [](const std::string& text) { terminal().print(text); });
}

}  // namespace trainctl
