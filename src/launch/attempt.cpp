#include "launch/attempt.h"

#include <poll.h>

#include <algorithm>
#include <csignal>

#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;

// Ranks whose end follows the first failure's so closely may be its cause as well as its effect.
constexpr milliseconds kFailureWindow{50};
constexpr milliseconds kEndPatience{5000};
constexpr int kReadsInARow = 4;
// Seconds. Without the lost node's ranks nobody can make a checkpoint; they wait for each other.
constexpr double kLostNodeGrace = 5;

}  // namespace

Attempt::Attempt(const AttemptPlan& plan, NodeGroup* nodes, Console* console,
                 LaunchSignals* signals)
    : plan_(plan), nodes_(nodes), console_(console), signals_(signals), start_(Clock::now()) {}

AttemptResult Attempt::run() {
  start();
  while (!all_ended()) step();
  // The signal that ended the ranks may be on its way to the launcher too.
  while (decide_at_ && LaunchSignals::asks_to_stop(ranks_[failed_[0]].end.signal)) step();
  if (!failed_.empty()) decide_failure();
  clean_up();
  wait_for_nodes();
  return result();
}

void Attempt::start() {
  std::vector<WorkerCommand> commands;
  ranks_.resize(plan_.ranks.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankPlan& plan = plan_.ranks[i];
    ranks_[i].io = std::make_unique<RankIo>(plan.out, plan.error, plan.prefix, console_);
    commands.push_back(plan.command);
    ranks_[i].io->give_to(&commands.back());
  }
  oom_start_ = oom_now_ = oom_kills();
  start_ = Clock::now();
  oom_rise_ = next_memory_look_ = start_;
  group_ = std::make_unique<WorkerGroup>(commands, plan_.temporary, kEndPatience);
  for (Rank& rank : ranks_) rank.io->close_rank_ends();
}

void Attempt::step() {
  wait_for_events();
  read_signals();
  read_outputs();
  read_workers();
  read_nodes();
  console_->write_ready();
  check_screen();
  check_timers();
}

void Attempt::wait_for_events() {
  std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
  if (!group_->is_over()) fds.push_back({group_->event_fd(), POLLIN, 0});
  if (nodes_->event_fd() >= 0) fds.push_back({nodes_->event_fd(), POLLIN, 0});
  for (const Rank& rank : ranks_) {
    for (const auto& output : rank.io->outputs())
      if (output->fd() >= 0 && !output->paused()) fds.push_back({output->fd(), POLLIN, 0});
  }
  console_->add_to(&fds);
  ::poll(fds.data(), fds.size(), poll_timeout());
}

int Attempt::poll_timeout() const {
  auto next = next_memory_look_;
  for (const auto& timer : {decide_at_, kill_at_, notice_at_, stragglers_at_, give_up_at_})
    if (timer) next = std::min(next, *timer);
  for (const Rank& rank : ranks_) {
    for (const auto& output : rank.io->outputs())
      if (output->fd() >= 0 && output->paused())
        next = std::min(next, Clock::now() + milliseconds(5));
  }
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60000));
}

void Attempt::read_outputs() {
  for (const Rank& rank : ranks_) {
    for (const auto& output : rank.io->outputs()) {
      for (int i = 0; i < kReadsInARow && !output->paused() && output->read_some(); ++i) {
      }
    }
  }
}

void Attempt::read_signals() {
  while (const auto number = signals_->next()) on_signal(*number);
}

void Attempt::read_workers() {
  while (const auto event = group_->next_event()) {
    Rank& rank = ranks_[static_cast<size_t>(event->index)];
    const Clock::time_point when{Clock::duration(event->time_ns)};
    RankEnd end = rank.end;
    switch (event->kind) {
      case WorkerEvent::Kind::kStarted:
        rank.pid = event->value;
        for (const int missed : rank.missed)
          group_->signal(static_cast<size_t>(event->index), missed);
        break;
      case WorkerEvent::Kind::kExecFailed:
        rank.end.exec_errno = event->value;
        break;
      case WorkerEvent::Kind::kExited:
        end.exit_code = event->value;
        on_rank_end(static_cast<size_t>(event->index), end, when);
        break;
      case WorkerEvent::Kind::kKilled:
        end.signal = event->value;
        on_rank_end(static_cast<size_t>(event->index), end, when);
        break;
      case WorkerEvent::Kind::kLeftBehind:
        left_behind_.push_back(std::to_string(event->value) + " (" + event->name + ")");
        break;
    }
  }
  if (group_->is_over()) end_unheard_ranks();
}

// Without the guard nothing more will be heard of them.
void Attempt::end_unheard_ranks() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended) continue;
    if (!group_->guard_was_killed())
      log_warning(
          "process " + std::to_string(ranks_[i].pid) + " of rank " +
          std::to_string(plan_.node.first_rank + static_cast<int64_t>(i)) +
          " does not end, not even by SIGKILL: it waits inside the kernel (a driver, a file "
          "system) and is left behind");
    RankEnd end;
    end.signal = SIGKILL;
    on_rank_end(i, end, Clock::now());
  }
}

void Attempt::on_rank_end(size_t index, const RankEnd& end, Clock::time_point when) {
  Rank& rank = ranks_[index];
  rank.ended = true;
  rank.end = end;
  rank.end_time = when;
  if (!end.is_failure()) return;
  if (end.signal == 0 && end.exit_code == 75) {
    // The ranks agree to stop; those that do not follow hang.
    if (!stopping_ && !stragglers_at_)
      stragglers_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(plan_.grace_period));
    return;
  }
  if (!stopping_ && failed_.empty() && forwarded_.contains(end.signal)) {
    return request_stop(end.signal, SIGTERM, true);  // it had no handler for what was passed on
  }
  const bool is_candidate =
      !stopping_ || (!failed_.empty() && when - ranks_[failed_[0]].end_time < kFailureWindow &&
                     is_spontaneous(end));
  if (!is_candidate) return;
  if (failure_) return;  // decided already
  failed_.push_back(index);
  if (!decide_at_ && !stopping_) decide_at_ = Clock::now() + kFailureWindow;
}

void Attempt::begin_stop_after_failure(bool node_lost) {
  if (stopping_) return;
  if (!node_lost) return begin_stop(SIGTERM, "a rank has failed", plan_.grace_period);
  if (!all_ended()) log_warning(failure_->text + "; the ranks here are ended");
  begin_stop(SIGTERM, "a node is lost", std::min(plan_.grace_period, kLostNodeGrace));
}

void Attempt::read_nodes() {
  while (const auto event = nodes_->next_event()) {
    switch (event->kind) {
      case NodeEvent::Kind::kFailure:
      case NodeEvent::Kind::kNodeLost:
        // What the nodes agree on as the first failure, over what this one has seen.
        failure_ = event->failure;
        restart_ = event->restart;
        failed_.clear();
        decide_at_.reset();
        begin_stop_after_failure(event->kind == NodeEvent::Kind::kNodeLost);
        break;
      case NodeEvent::Kind::kStop:
        if (stop_signal_ != 0 || failure_) break;
        if (!event->failure.text.empty()) log_info(event->failure.text);
        if (all_ended()) {  // well; only the others were still at work
          stop_signal_ = event->signal;
          stopped_waiting_ = true;
        } else if (!stopping_) {
          request_stop(event->signal, event->signal == SIGPIPE ? SIGTERM : event->signal, false);
        }
        break;
      case NodeEvent::Kind::kAllDone:
        nodes_done_ = true;
        break;
    }
  }
}

void Attempt::check_screen() {
  // As a program that prints would end by SIGPIPE: the reader has seen enough.
  if (!stopping_ && failed_.empty() && console_->stdout_closed())
    request_stop(SIGPIPE, SIGTERM, true);
}

void Attempt::check_timers() {
  const auto now = Clock::now();
  const auto due = [now](std::optional<Clock::time_point>* timer) {
    if (!*timer || now < **timer) return false;
    timer->reset();
    return true;
  };
  if (now >= next_memory_look_) watch_memory();
  if (due(&decide_at_) && !failed_.empty()) decide_failure();
  if (due(&stragglers_at_)) {
    begin_stop(SIGTERM, "the others have stopped with a checkpoint", plan_.grace_period);
    joinable_ = true;
  }
  if (due(&notice_at_) && !all_ended()) say_who_is_waited_for();
  if (due(&kill_at_)) kill_late_ranks();
  if (due(&give_up_at_)) group_->kill();
}

bool Attempt::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

}  // namespace trainctl
