#include "launch/attempt.h"

#include <poll.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;

// Ranks whose end follows the first failure's so closely may be its cause as well as its effect.
constexpr milliseconds kFailureWindow{50};
// A wrapper that passes on what the terminal has sent already doubles signals; nobody is so quick.
constexpr milliseconds kSameSignal{100};
constexpr milliseconds kNotice{1000};
constexpr milliseconds kEndPatience{5000};
constexpr int kReadsInARow = 4;
constexpr int kLastReads = 64;  // of a rank that has ended; others may hold its pipe and write on
constexpr auto kVerdictWait = std::chrono::seconds(2);

// Such a death is nobody's consequence; a broken connection or an abort may be.
bool is_spontaneous(const RankEnd& end) {
  return end.signal == SIGKILL || end.signal == SIGSEGV || end.signal == SIGBUS ||
         end.signal == SIGILL || end.signal == SIGFPE || end.signal == SIGSYS;
}

std::string content_of(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Attempt::Attempt(const AttemptPlan& plan, NodeGroup* nodes, Console* console,
                 LaunchSignals* signals)
    : plan_(plan), nodes_(nodes), console_(console), signals_(signals), start_(Clock::now()) {}

AttemptResult Attempt::run() {
  start();
  while (!all_ended()) step();
  if (!failed_.empty() && !failure_) decide_failure();
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
  for (const auto& timer : {decide_at_, kill_at_, notice_at_, stragglers_at_})
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

void Attempt::on_signal(int signal_number) {
  if (signal_number == SIGTSTP) return pause_all();
  if (signal_number == SIGCONT) return signal_all(SIGCONT);
  if (!LaunchSignals::asks_to_stop(signal_number)) {  // USR1, USR2: the ranks' own affair
    forwarded_.insert(signal_number);
    return signal_all(signal_number);
  }
  const auto now = Clock::now();
  const bool doubled = last_signal_ == signal_number && now - last_signal_time_ < kSameSignal;
  last_signal_ = signal_number;
  last_signal_time_ = now;
  if (doubled) return;
  if (!stopping_ && failed_.empty()) return request_stop(signal_number, signal_number, true);
  if (interrupt_ == 0) interrupt_ = signal_number;
  if (signal_number != SIGHUP) kill_all();  // a closed terminal sends it more than once
}

// Ctrl-Z: the ranks have no terminal of their own that could stop them.
void Attempt::pause_all() {
  signal_all(SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  signal_all(SIGCONT);
}

void Attempt::request_stop(int signal_number, int forwarded, bool from_here) {
  stop_signal_ = signal_number;
  if (from_here) nodes_->report_stop(signal_number);
  begin_stop(forwarded);
}

void Attempt::begin_stop(int signal_number) {
  stopping_ = true;
  stragglers_at_.reset();
  kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(plan_.grace_period));
  notice_at_ = Clock::now() + kNotice;
  forwarded_.insert(signal_number);
  signal_all(signal_number);
  signal_all(SIGCONT);  // a stopped one could not end
}

void Attempt::kill_all() {
  killed_ = true;
  kill_at_.reset();
  notice_at_.reset();
  signal_all(SIGKILL);
  if (all_ended()) group_->kill();
}

void Attempt::signal_all(int signal_number) {
  for (size_t i = 0; i < ranks_.size(); ++i) group_->signal(i, signal_number);
}

void Attempt::read_workers() {
  while (const auto event = group_->next_event()) {
    Rank& rank = ranks_[static_cast<size_t>(event->index)];
    const Clock::time_point when{Clock::duration(event->time_ns)};
    RankEnd end = rank.end;
    switch (event->kind) {
      case WorkerEvent::Kind::kStarted:
        rank.pid = event->value;
        // A stop may have been asked for before it was there.
        if (stopping_)
          group_->signal(static_cast<size_t>(event->index), killed_ ? SIGKILL : SIGTERM);
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
  if (!group_->guard_was_killed()) return;
  // The ranks went with their guard; nothing more will be heard of them.
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended) continue;
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
  failed_.push_back(index);
  if (!decide_at_ && !stopping_) decide_at_ = Clock::now() + kFailureWindow;
}

void Attempt::decide_failure() {
  decide_at_.reset();
  size_t first = failed_[0];
  for (const size_t index : failed_)
    if (is_spontaneous(ranks_[index].end) && !is_spontaneous(ranks_[first].end)) first = index;
  for (const auto& output : ranks_[first].io->outputs()) {
    for (int i = 0; i < kLastReads && output->read_some(); ++i) {
    }
  }
  watch_memory();
  const FailureFacts facts = facts_of(first);
  WorkerFailure failure;
  failure.host = plan_.host;
  failure.rank = facts.rank;
  failure.local_rank = facts.local_rank;
  failure.exit_code = facts.end.exit_code;
  failure.signal = facts.end.signal;
  failure.text = failure_text(facts);
  failure.may_restart = worth_a_restart(facts.end);
  restart_ = failure.may_restart && !plan_.last;
  failure_ = failure;
  nodes_->report_failure(failure, restart_);
  if (!stopping_) begin_stop(SIGTERM);
}

FailureFacts Attempt::facts_of(size_t index) const {
  const Rank& rank = ranks_[index];
  FailureFacts facts;
  facts.host = plan_.host;
  facts.rank = plan_.node.first_rank + static_cast<int64_t>(index);
  facts.local_rank = static_cast<int64_t>(index);
  facts.pid = rank.pid;
  facts.end = rank.end;
  facts.seconds = std::chrono::duration<double>(rank.end_time - start_).count();
  facts.attempt = plan_.number;
  facts.program = plan_.program;
  facts.is_trainctl = plan_.is_trainctl;
  facts.last_lines = rank.io->last_lines();
  facts.lines_on_screen =
      ranks_.size() == 1 && rank.io->all_on_screen() && console_->is_one_stream();
  facts.error_file_text = content_of(plan_.ranks[index].error_file);
  facts.log_files = rank.io->files();
  facts.oom_before = oom_start_;
  facts.oom_now = oom_now_;
  facts.oom_seconds_before =
      std::max(0.0, std::chrono::duration<double>(rank.end_time - oom_rise_).count());
  struct statvfs shm = {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    facts.shm_size = static_cast<uint64_t>(shm.f_blocks) * shm.f_frsize;
    facts.shm_free = static_cast<uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  return facts;
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
        if (!stopping_) begin_stop(SIGTERM);
        break;
      case NodeEvent::Kind::kStop:
        if (!stopping_)
          request_stop(event->signal, event->signal == SIGPIPE ? SIGTERM : event->signal, false);
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
  if (due(&stragglers_at_)) begin_stop(SIGTERM);
  if (due(&notice_at_) && !all_ended()) {
    std::vector<std::string> waiting;
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (!ranks_[i].ended)
        waiting.push_back(std::to_string(plan_.node.first_rank + static_cast<int64_t>(i)));
    log_info((failure_ ? "a rank has failed" : "asked to stop") + std::string("; ranks ") +
             join(waiting, ", ") + " have up to " + human_duration(plan_.grace_period) +
             " to end (--grace-period)");
  }
  if (due(&kill_at_)) kill_all();
}

void Attempt::watch_memory() {
  const OomKills kills = oom_kills();
  if (kills.control_group > oom_now_.control_group || kills.machine > oom_now_.machine)
    oom_rise_ = Clock::now();
  oom_now_ = kills;
  next_memory_look_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(plan_.monitor_interval));
}

bool Attempt::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

// What the ranks have left running ends now; then what they still had in their pipes is read.
void Attempt::clean_up() {
  decide_at_.reset();
  notice_at_.reset();
  kill_at_.reset();
  stopping_ = true;  // from here on a signal hurries
  killed_ ? group_->kill() : group_->end();
  const size_t known = left_behind_.size();
  while (!group_->is_over()) step();
  for (const Rank& rank : ranks_)
    for (const auto& output : rank.io->outputs()) output->drain_and_close();
  console_->write_ready();
  if (left_behind_.size() > known && !killed_)
    log_info("ended what the ranks had left running: " + join(left_behind_, ", "));
}

// Other nodes may still work, or have failed first.
void Attempt::wait_for_nodes() {
  if (nodes_->event_fd() < 0 && plan_.node.node_count == 1) {
    if (!failure_) nodes_->report_done();
    return;
  }
  if (failure_ || stop_signal_ != 0) {
    // This node's failure may be the echo of another's, which the rendezvous knows.
    const auto limit = Clock::now() + kVerdictWait;
    bool heard = !failure_;
    while (!heard && Clock::now() < limit) {
      pollfd news = {nodes_->event_fd(), POLLIN, 0};
      ::poll(&news, 1, 50);
      const std::string before = failure_->text;
      read_nodes();
      heard = failure_->text != before;
    }
    return;
  }
  nodes_->report_done();
  stopping_ = false;
  while (!nodes_done_ && !failure_ && stop_signal_ == 0) {
    pollfd news[] = {{nodes_->event_fd(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}};
    ::poll(news, 2, 1000);
    read_signals();
    read_nodes();
    console_->write_ready();
  }
}

AttemptResult Attempt::result() const {
  AttemptResult result;
  result.failure = failure_;
  result.restart = restart_;
  result.stop_signal = stop_signal_;
  result.interrupt = interrupt_;
  result.all_well = true;
  bool any_checkpoint = false;
  const Rank* odd = nullptr;
  for (const Rank& rank : ranks_) {
    const bool checkpoint = rank.end.signal == 0 && rank.end.exit_code == 75;
    any_checkpoint |= checkpoint;
    result.all_well &= !rank.end.is_failure();
    if (rank.end.is_failure() && !checkpoint) odd = &rank;
  }
  result.checkpointed = any_checkpoint && odd == nullptr;
  // Ranks that had to be ended after others had stopped with a checkpoint.
  if (!failure_ && stop_signal_ == 0 && odd != nullptr)
    result.stop_signal = odd->end.signal != 0 ? odd->end.signal : SIGTERM;
  return result;
}

}  // namespace trainctl
