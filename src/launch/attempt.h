// One attempt: this node's ranks from their start to the end of the last process they left.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/console.h"
#include "launch/failure_report.h"
#include "launch/launch_signals.h"
#include "launch/rank_io.h"
#include "launch/worker_group.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {

struct RankPlan {
  WorkerCommand command;
  StreamPlan out, error;
  std::string prefix;
  std::string error_file;
};

struct AttemptPlan {
  NodeAssignment node;
  int64_t number = 0;
  bool last = false;  // no restart is left
  std::vector<RankPlan> ranks;
  std::string host;
  std::string program;
  bool is_trainctl = false;
  bool is_slurm_job = false;
  std::string temporary;  // folder that the guard removes should the launcher be killed
  double grace_period = 30;
  double monitor_interval = 1;
};

struct AttemptResult {
  std::optional<WorkerFailure> failure;  // the first, on whichever node
  bool restart = false;
  int stop_signal = 0;        // the launcher was asked to stop
  int interrupt = 0;          // a stop signal that came while ranks were ending already
  bool all_well = false;      // every rank of this node ended with 0
  bool checkpointed = false;  // with 0 or 75, and at least one with 75
  std::string killed_text;    // which ranks had to be killed, and why; in the failure's text too
};

class Attempt {
 public:
  Attempt(const AttemptPlan& plan, NodeGroup* nodes, Console* console, LaunchSignals* signals);
  AttemptResult run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Rank {
    std::unique_ptr<RankIo> io;
    pid_t pid = 0;            // 0: not yet heard of
    std::vector<int> missed;  // signals that came before
    bool ended = false;
    RankEnd end;
    Clock::time_point end_time;
  };

  struct LivingRanks {
    size_t count;
    std::string text;  // "rank 2", "ranks 0, 3"
  };

  void start();
  void step();
  void wait_for_events();
  int poll_timeout() const;
  void read_signals();
  void on_signal(int signal_number);
  void pause_all();
  void read_workers();
  void end_unheard_ranks();
  void on_rank_end(size_t index, const RankEnd& end, Clock::time_point when);
  void read_nodes();
  void read_outputs();
  void check_screen();
  void check_timers();
  void watch_memory();

  void request_stop(int signal_number, int forwarded, bool from_here);
  void begin_stop(int signal_number, const std::string& why, double grace_period);
  void begin_stop_after_failure(bool node_lost);
  void say_who_is_waited_for() const;
  void say_killed_at_once(int signal_number);
  std::string grace_origin() const;
  void kill_late_ranks();
  void kill_all();
  void decide_failure();
  FailureFacts facts_of(size_t index) const;
  void signal_all(int signal_number);
  bool all_ended() const;
  LivingRanks living_ranks() const;
  void wait_for_nodes();
  void clean_up();
  AttemptResult result() const;

  const AttemptPlan& plan_;
  NodeGroup* nodes_;
  Console* console_;
  LaunchSignals* signals_;
  std::vector<Rank> ranks_;
  std::unique_ptr<WorkerGroup> group_;
  Clock::time_point start_;

  std::vector<size_t> failed_;  // candidates for the first failure, in order of their end
  std::optional<WorkerFailure> failure_;
  bool restart_ = false;
  bool stopping_ = false;    // ranks have been told to end
  double grace_period_ = 0;  // of the stop under way
  bool joinable_ = false;    // it began elsewhere, and the next signal here is not a second one
  int end_signal_ = 0;       // by this signal, for this reason
  std::string why_ending_;
  bool killed_ = false;
  std::string killed_text_;
  int stop_signal_ = 0;
  int interrupt_ = 0;
  std::set<int> forwarded_;
  std::optional<int> last_signal_;
  Clock::time_point last_signal_time_;
  bool nodes_done_ = false;
  bool stopped_waiting_ = false;  // for other nodes, after this one's ranks had ended well
  std::vector<std::string> left_behind_;

  std::optional<Clock::time_point> decide_at_, kill_at_, notice_at_, stragglers_at_, give_up_at_;
  Clock::time_point next_memory_look_;
  OomKills oom_start_, oom_now_;
  Clock::time_point oom_rise_;
};

}  // namespace trainctl
