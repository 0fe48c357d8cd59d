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
  if (signal_number == SIGHUP) return;  // a closed terminal sends it more than once
  if (!all_ended() && !killed_) {
    const auto late = living_ranks();
    killed_text_ = late.text + (late.count == 1 ? " was" : " were") + " killed at once by " +
                   signal_name(signal_number) + ", which came while the ranks were ending";
    log_warning(killed_text_);
  }
  kill_all();
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
  begin_stop(forwarded, "asked to stop by " + signal_name(signal_number));
}

void Attempt::begin_stop(int signal_number, const std::string& why) {
  stopping_ = true;
  end_signal_ = signal_number;
  why_ending_ = why;
  stragglers_at_.reset();
  kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(plan_.grace_period));
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
           human_duration(plan_.grace_period) + " to end (--grace-period)");
}

void Attempt::kill_late_ranks() {
  const auto late = living_ranks();
  if (late.count > 0) {
    killed_text_ = late.text + " had not ended " + human_duration(plan_.grace_period) + " after " +
                   signal_name(end_signal_) + " (--grace-period) and " +
                   (late.count == 1 ? "was" : "were") + " killed";
    log_warning(killed_text_);
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
