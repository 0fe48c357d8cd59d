// How ranks are told to end: by signals to the launcher, after a failure, and for good.
#include <unistd.h>

#include <csignal>

#include "launch/attempt.h"
#include "trainctl/base/log.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;

// A wrapper that passes on what the terminal has sent already doubles signals; nobody is so quick.
constexpr milliseconds kSameSignal{100};
constexpr milliseconds kNotice{1000};
constexpr milliseconds kGiveUp{20000};  // on processes that SIGKILL does not end

}  // namespace

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
  if (!stopping_) return request_stop(signal_number, signal_number, true);
  if (interrupt_ == 0) interrupt_ = signal_number;
  if (joinable_) {  // this node's own copy of the signal that has stopped another one
    joinable_ = false;
    return;
  }
  if (signal_number == SIGHUP) return;  // a closed terminal sends it more than once
  // Slurm sends it to the step and through srun, again at the end of a preemption's grace time, and
  // kills by itself what stays.
  if (signal_number == SIGTERM && plan_.is_slurm_job) return;
  if (!all_ended() && !killed_) say_killed_at_once(signal_number);
  kill_all();
}

void Attempt::say_killed_at_once(int signal_number) {
  const auto late = living_ranks();
  const std::string name = signal_name(signal_number);
  const bool second = stop_signal_ != 0;
  killed_text_ = late.text + (late.count == 1 ? " was" : " were") + " killed at once by " +
                 (second ? "a second " + name : name + ", which came while the ranks were ending");
  log_warning(second ? "second " + name +
                           ": all ranks are killed at once, without a checkpoint of this stop"
                     : killed_text_);
}

// Ctrl-Z: the ranks have no terminal of their own that could stop them.
void Attempt::pause_all() {
  signal_all(SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  signal_all(SIGCONT);
}

void Attempt::request_stop(int signal_number, int forwarded, bool from_here) {
  stop_signal_ = signal_number;
  // A scheduler may signal every process of a job: ranks that ended by it just before did not fail.
  failed_.clear();
  decide_at_.reset();
  if (from_here) nodes_->report_stop(signal_number);
  joinable_ = !from_here;
  if (from_here && signal_number != SIGPIPE && ::isatty(STDERR_FILENO) == 1) {
    log_info(signal_name(signal_number) +
             (plan_.is_trainctl ? ": stopping after this step with a checkpoint; a second one kills"
                                : ": passed on to the ranks; a second one kills them"));
  }
  begin_stop(forwarded, "asked to stop by " + signal_name(signal_number), plan_.grace_period);
}

void Attempt::begin_stop(int signal_number, const std::string& why, double grace_period) {
  stopping_ = true;
  grace_period_ = grace_period;
  end_signal_ = signal_number;
  why_ending_ = why;
  stragglers_at_.reset();
  kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(grace_period_));
  notice_at_ = Clock::now() + kNotice;
  forwarded_.insert(signal_number);
  signal_all(signal_number);
  signal_all(SIGCONT);  // a stopped one could not end
}

Attempt::LivingRanks Attempt::living_ranks() const {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].ended)
      numbers.push_back(std::to_string(plan_.node.first_rank + static_cast<int64_t>(i)));
  return {numbers.size(), (numbers.size() == 1 ? "rank " : "ranks ") + join(numbers, ", ")};
}

void Attempt::say_who_is_waited_for() const {
  const auto late = living_ranks();
  log_info(why_ending_ + "; " + late.text + (late.count == 1 ? " has" : " have") + " up to " +
           human_duration(grace_period_) + " to end" + grace_origin());
}

std::string Attempt::grace_origin() const {
  return grace_period_ < plan_.grace_period ? "" : " (--grace-period)";
}

void Attempt::kill_late_ranks() {
  const auto late = living_ranks();
  if (late.count > 0) {
    killed_text_ = late.text + " had not ended " + human_duration(grace_period_) + " after " +
                   signal_name(end_signal_) + grace_origin() + " and " +
                   (late.count == 1 ? "was" : "were") + " killed";
    // A failed run would not have ended better with more time.
    log_warning(killed_text_ +
                (failure_ ? ""
                          : "; the step under way and its checkpoint must fit in: give more with "
                            "--grace-period, or stop by SIGUSR1, which has no limit"));
  }
  kill_all();
}

void Attempt::kill_all() {
  killed_ = true;
  if (!give_up_at_) give_up_at_ = Clock::now() + kGiveUp;
  kill_at_.reset();
  notice_at_.reset();
  signal_all(SIGKILL);
  if (all_ended()) group_->kill();
}

void Attempt::signal_all(int signal_number) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].pid == 0) {
      ranks_[i].missed.push_back(signal_number);
    } else {
      group_->signal(i, signal_number);
    }
  }
}

}  // namespace trainctl
