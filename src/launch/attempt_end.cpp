// How an attempt ends: which failure counts and what is told about it, what the ranks have left
// running, and what other nodes say.
#include <poll.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <csignal>

#include "launch/attempt.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr int kLastReads = 64;  // of a rank that has ended; others may hold its pipe and write on

std::string content_of(const std::string& path) {
  constexpr uintmax_t kLargest = 4 << 20;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);  // an error for a FIFO or a device
  if (path.empty() || error || size > kLargest) return "";
  try {
    return read_regular_file(path, ExitCode::kUsage);
  } catch (const UserError&) {
    return "";
  }
}

}  // namespace

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
  failed_.clear();
  nodes_->report_failure(failure, restart_);
  read_nodes();  // another node may have failed before this one, which is then but an echo
  begin_stop_after_failure(/*node_lost=*/false);
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
  // Other nodes show the same report without these lines.
  facts.lines_shown =
      plan_.node.node_count == 1 && rank.io->all_on_screen() && console_->is_one_stream();
  facts.lines_on_screen =
      ranks_.size() == 1 && rank.io->all_on_screen() && console_->is_one_stream();
  facts.error_file_text = content_of(plan_.ranks[index].error_file);
  facts.log_files = rank.io->files();
  facts.guard_was_killed = group_->guard_was_killed();
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

void Attempt::watch_memory() {
  group_->wake_guard();
  const OomKills kills = oom_kills();
  if (kills.control_group > oom_now_.control_group || kills.machine > oom_now_.machine)
    oom_rise_ = Clock::now();
  oom_now_ = kills;
  next_memory_look_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(plan_.monitor_interval));
}

// What the ranks have left running ends now; then what they still had in their pipes is read.
void Attempt::clean_up() {
  decide_at_.reset();
  notice_at_.reset();
  kill_at_.reset();
  give_up_at_.reset();
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

// Other nodes may still work, fail or be stopped.
void Attempt::wait_for_nodes() {
  if (failure_ || stop_signal_ != 0) return;
  if (interrupt_ != 0 && plan_.node.node_count > 1) {  // asked to stop while leftovers ended
    stop_signal_ = interrupt_;
    stopped_waiting_ = true;
    return nodes_->report_stop(interrupt_);
  }
  stopping_ = false;
  nodes_->report_done();
  read_nodes();
  while (!nodes_done_ && !failure_ && stop_signal_ == 0) {
    pollfd news[] = {{nodes_->event_fd(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}};
    ::poll(news, 2, 1000);
    read_signals();
    read_nodes();
    console_->write_ready();
  }
  stopped_waiting_ = stop_signal_ != 0;
}

AttemptResult Attempt::result() const {
  AttemptResult result;
  result.failure = failure_;
  result.killed_text = killed_text_;
  if (result.failure) result.failure->text += report_row("then", killed_text_);
  result.restart = restart_;
  result.stop_signal = stop_signal_;
  result.interrupt = interrupt_;
  result.all_well = !stopped_waiting_;
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
