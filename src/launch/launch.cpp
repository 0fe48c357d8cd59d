#include "trainctl/launch/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "launch/attempt.h"
#include "launch/cpu_share.h"
#include "launch/dry_run.h"
#include "launch/log_folders.h"
#include "launch/make_group.h"
#include "launch/node_plan.h"
#include "launch/rank_environment.h"
#include "launch/requeue.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/process.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/launch/endpoint.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;

// Without a reader that moves, waiting for the screen ends after this long.
constexpr milliseconds kScreenPatience{10000};
constexpr double kLongestBackoff = 5;  // seconds between attempts

std::string host_name() {
  const std::string host = ProcessIdentity::self().host;
  return host.empty() ? "this host" : host;
}

// While it lives, log records go through the console, in order with the ranks' lines.
class ConsoleLog {
 public:
  explicit ConsoleLog(Console* console) {
    set_log_sink([console](LogLevel level, const std::string& text) {
      console->message(level, text);
      console->write_ready();  // nobody else writes while the nodes are waited for
    });
  }
  ~ConsoleLog() { set_log_sink(nullptr); }
  ConsoleLog(const ConsoleLog&) = delete;
  ConsoleLog& operator=(const ConsoleLog&) = delete;
};

// The ranks' standard input: the launcher's own, but never a terminal, which would stop whoever
// reads from it in the background.
class RankInput {
 public:
  RankInput() {
    if (::isatty(STDIN_FILENO) == 1) null_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  ~RankInput() {
    if (null_ >= 0) ::close(null_);
  }
  RankInput(const RankInput&) = delete;
  RankInput& operator=(const RankInput&) = delete;
  int fd() const { return null_ >= 0 ? null_ : STDIN_FILENO; }

 private:
  int null_ = -1;
};

class Launch {
 public:
  Launch(const LaunchJob& job, const NodePlan& plan)
      : job_(job), options_(job.options), plan_(plan), host_(host_name()), log_(&console_) {}

  ~Launch() { console_.finish(kScreenPatience, &LaunchSignals::stop_pending); }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  int run() {
    const auto group = make_group(options_);
    for (int64_t number = 0;; ++number) {
      const auto node = group->join(offer(), number, &LaunchSignals::stop_pending);
      if (!node) return stopped_while_joining(group.get());
      if (number == 0) {
        folders_.emplace(options_, *node);
        say_start(*node);
      }
      const AttemptPlan attempt_plan = plan_attempt(*node, number);
      const AttemptResult result = Attempt(attempt_plan, group.get(), &console_, &signals_).run();
      if (!result.failure || !result.restart || number >= options_.max_restarts)
        return exit_code(result);
      log_warning("attempt " + std::to_string(number) + " failed: " + result.failure->text);
      if (result.interrupt != 0) return stopped(result.interrupt);
      if (!wait_before(number + 1)) return stopped_while_waiting();
      log_warning("restarting all ranks, restart " + std::to_string(number + 1) + " of " +
                  std::to_string(options_.max_restarts));
    }
  }

 private:
  NodeOffer offer() const {
    NodeOffer offer;
    offer.host = host_;
    offer.node_rank = options_.node_rank;
    offer.local_world_size = plan_.ranks;
    // First: another build may have other keys.
    offer.agree = {{"build of trainctl", std::string(kVersion) + " (build " + kBuildId + ")"}};
    offer.agree.insert(offer.agree.end(), job_.agree.begin(), job_.agree.end());
    offer.agree.emplace_back("--nnodes", std::to_string(options_.node_count));
    offer.agree.emplace_back("--nproc", std::to_string(plan_.ranks));
    offer.agree.emplace_back("--max-restarts", std::to_string(options_.max_restarts));
    return offer;
  }

  AttemptPlan plan_attempt(const NodeAssignment& node, int64_t number) const {
    AttemptPlan attempt;
    attempt.node = node;
    attempt.number = number;
    attempt.last = number >= options_.max_restarts;
    attempt.host = host_;
    attempt.program = job_.target.name;
    attempt.is_trainctl = job_.target.is_trainctl();
    attempt.is_slurm_job = process_environment()("SLURM_JOB_ID").has_value();
    attempt.temporary = folders_->temporary();
    attempt.grace_period = options_.grace_period;
    attempt.monitor_interval = options_.monitor_interval;
    for (int64_t rank = 0; rank < plan_.ranks; ++rank)
      attempt.ranks.push_back(plan_rank(node, number, rank));
    return attempt;
  }

  RankPlan plan_rank(const NodeAssignment& node, int64_t number, int64_t local_rank) const;
  StreamPlan plan_stream(int64_t local_rank, int bit, const fs::path& file) const;
  void say_start(const NodeAssignment& node) const;

  int stopped_while_joining(NodeGroup* group) {
    while (const auto event = group->next_event()) {
      if (event->kind != NodeEvent::Kind::kStop) continue;
      if (!event->failure.text.empty()) log_info(event->failure.text);
      return stopped(event->signal);
    }
    return stopped_while_waiting();
  }

  int stopped_while_waiting() {
    while (const auto number = signals_.next())
      if (LaunchSignals::asks_to_stop(*number)) return stopped(*number);
    return stopped(SIGTERM);
  }

  static int stopped(int signal_number, const std::string& more = "") {
    log_info("stopped by " + signal_name(signal_number) + more);
    return 128 + signal_number;
  }

  // A short pause, longer each time; false when a signal asks to stop.
  bool wait_before(int64_t attempt) {
    const double seconds = std::min(0.25 * static_cast<double>(attempt), kLongestBackoff);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (LaunchSignals::stop_pending()) return false;
      console_.write_ready();
      ::usleep(10000);
    }
    return true;
  }

  int exit_code(const AttemptResult& result) {
    if (result.failure) {
      log_error(result.failure->text);
      return result.failure->launcher_exit_code();
    }
    if (result.checkpointed) {
      log_info((result.stop_signal != 0 ? "stopped by " + signal_name(result.stop_signal)
                                        : std::string("the ranks have stopped")) +
               ": a checkpoint is complete, and the same command goes on from it");
      if (options_.requeue) requeue_slurm_job(process_environment());
      return static_cast<int>(ExitCode::kStoppedWithCheckpoint);
    }
    if (result.all_well || result.stop_signal == 0) return 0;
    return stopped(result.stop_signal, result.killed_text.empty() ? "" : "; " + result.killed_text);
  }

  const LaunchJob& job_;
  const LaunchOptions& options_;
  const NodePlan& plan_;
  std::string host_;
  LaunchSignals signals_;
  Console console_;
  ConsoleLog log_;
  RankInput input_;
  std::optional<LogFolders> folders_;
};

StreamPlan Launch::plan_stream(int64_t local_rank, int bit, const fs::path& file) const {
  const bool redirected = (options_.redirects.of(local_rank) & bit) != 0;
  const bool named = options_.redirects.any() || options_.tee.any();
  const bool teed =
      (options_.tee.of(local_rank) & bit) != 0 || (!named && !options_.log_dir.empty());
  StreamPlan stream;
  if (redirected || teed) stream.file = file;
  stream.file_only = redirected && !teed;
  const auto& filter = options_.local_ranks_filter;
  stream.on_screen = !stream.file_only && (!filter || filter->contains(local_rank));
  return stream;
}

RankPlan Launch::plan_rank(const NodeAssignment& node, int64_t number, int64_t local_rank) const {
  const fs::path folder = folders_->rank_folder(number, local_rank);
  RankPlace place;
  place.local_rank = local_rank;
  place.attempt = number;
  if (!folder.empty()) place.error_file = folder / "error.json";
  place.threads = plan_.threads;
  const auto index = static_cast<size_t>(local_rank);
  if (!plan_.own_devices.empty()) place.visible_device = plan_.own_devices[index];

  RankPlan rank;
  rank.error_file = place.error_file;
  rank.out = plan_stream(local_rank, StreamChoice::kStdout, folder / "stdout.log");
  rank.error = plan_stream(local_rank, StreamChoice::kStderr, folder / "stderr.log");
  const std::string global_rank = std::to_string(node.first_rank + local_rank);
  if (node.node_count > 1) {
    rank.prefix = "[" + host_ + ":" + global_rank + "] ";
  } else if (plan_.ranks > 1) {
    rank.prefix = "[" + global_rank + "] ";
  }
  rank.command.path = job_.target.path;
  rank.command.argv =
      job_.target.is_trainctl() ? job_.target.argv : rank_arguments(job_.target.argv, local_rank);
  rank.command.environment =
      merge_environment(environ, rank_variables(node, options_, plan_.ranks, place));
  if (!plan_.cpus.empty()) rank.command.cpus = plan_.cpus[index];
  rank.command.input = input_.fd();
  return rank;
}

void Launch::say_start(const NodeAssignment& node) const {
  std::string text = std::to_string(plan_.ranks) + (plan_.ranks == 1 ? " rank of " : " ranks of ") +
                     job_.target.name + " on " + host_;
  if (node.node_count > 1) {
    text += " (node " + std::to_string(node.node_rank) + " of " + std::to_string(node.node_count) +
            ", ranks " + std::to_string(node.first_rank) + " to " +
            std::to_string(node.first_rank + plan_.ranks - 1) + " of " +
            std::to_string(node.world_size) + ")";
  }
  text += ", rank 0 at " + Endpoint{node.master_addr, node.master_port}.to_string() + ", " +
          plan_.thread_text;
  if (!plan_.cpus.empty()) {
    std::vector<std::string> lists;
    for (const auto& cpus : plan_.cpus) lists.push_back(format_cpu_list(cpus));
    text += ", CPUs " + join(lists, " | ");
  }
  if (!plan_.gpu_text.empty()) text += ", " + plan_.gpu_text;
  log_info(text);
  if (folders_->temporary().empty()) log_info("log files in " + folders_->run_folder().string());
}

}  // namespace

int launch(const LaunchJob& job, void (*print)(const std::string& text)) {
  const NodePlan plan = make_node_plan(job, process_environment());
  if (job.options.node_count > 1) rendezvous_options(job.options);
  if (job.options.requeue) require_slurm_job(process_environment());
  if (job.check_ranks) job.check_ranks(plan.ranks * job.options.node_count);
  if (job.options.dry_run) {
    print(launch_dry_run_text(job, plan));
    return 0;
  }
  return Launch(job, plan).run();
}

}  // namespace trainctl
