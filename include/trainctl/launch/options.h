// What `trainctl launch` was asked to do, from its command line, the environment and defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trainctl/launch/process_world.h"

namespace trainctl {

enum class NprocKind { kNumber, kAuto, kGpu, kCpu };

// --redirects and --tee as torchrun writes them: "3" for all ranks, or "0:1,1:2" by local rank.
struct StreamChoice {
  static constexpr int kStdout = 1;
  static constexpr int kStderr = 2;
  int all = 0;
  std::map<int64_t, int> by_rank;

  int of(int64_t local_rank) const;
  bool any() const;
};

struct LaunchOptions {
  NprocKind nproc_kind = NprocKind::kNumber;
  int64_t nproc = 1;
  int64_t node_count = 1;
  std::optional<int64_t> node_rank;
  std::string rdzv_endpoint;
  std::string endpoint_origin;  // "SLURM_STEP_NODELIST is n[05-06]"; empty: a flag names it
  std::string rdzv_backend;
  std::string run_id = "none";  // torchrun's default
  bool standalone = false;
  std::string master_addr;
  std::string local_addr;
  int64_t master_port = 0;  // 0: a free one
  int64_t max_restarts = 0;
  double monitor_interval = 1;  // seconds, as all times here
  double grace_period = 30;
  double join_timeout = 300;
  std::string log_dir;
  StreamChoice redirects;
  StreamChoice tee;
  std::optional<std::set<int64_t>> local_ranks_filter;
  std::string role = "default";
  bool virtual_local_rank = false;
  bool pin_cpus = true;
  bool module = false;
  bool no_python = false;
  bool dry_run = false;
  bool requeue = false;  // the job of Slurm, after a stop with a checkpoint

  // About flags of torchrun that are accepted and change nothing.
  std::vector<std::string> notes;

  // By flag name without dashes ("nnodes"): who said it, "--nnodes" or "PET_NNODES". Absent:
  // default.
  std::map<std::string, std::string> sources;
  bool given(const std::string& flag) const { return sources.contains(flag); }
  // For messages: the source, or the flag's name when it is a default.
  std::string source(const std::string& flag) const;
};

struct LaunchCommandLine {
  LaunchOptions options;
  std::vector<std::string> words;  // from the first word that is no flag of launch
  bool is_program = false;         // they stood after "--"
  bool help = false;
};

// Flags end at the first word that is none, or at "--". The command line wins over TRAINCTL_<FLAG>,
// that over torchrun's PET_<FLAG>. Throws usage_error naming flag or variable, value and cure.
LaunchCommandLine parse_launch_command_line(const std::vector<std::string>& words,
                                            const EnvironmentLookup& variable);

std::string launch_flags_help();
// Whether a word such as "--nproc=2" is a flag of the launcher in full.
bool is_launch_flag(const std::string& word);  // the flags' part of --help

}  // namespace trainctl
