#include "launch/meeting.h"

#include <algorithm>

#include "trainctl/base/error.h"
#include "trainctl/base/stop.h"

namespace trainctl {
namespace {

constexpr std::chrono::milliseconds kGreetingTime{5000};
constexpr std::chrono::seconds kReportEvery{10};

constexpr int64_t code_of(ExitCode code) { return static_cast<int64_t>(code); }

}  // namespace

Meeting::Meeting(MeetingOptions options, SteadyTime now)
    : options_(std::move(options)), gathering_since_(now), next_report_(now + kReportEvery) {
  if (options_.master_port != 0) reserve_port();
}

void Meeting::reserve_port() {
  if (port_.port() != 0 && options_.master_port != 0) return;  // asked for: kept over all attempts
  port_.release();
  port_ = PortReservation::make(options_.master_addr, options_.master_port);
}

bool Meeting::belongs(Peer peer) const {
  const auto found = members_.find(peer);
  return found != members_.end() && found->second.greeted;
}

// --- who comes ---

void Meeting::on_connected(Peer peer, const std::string& address, bool own, SteadyTime now) {
  Member member;
  member.address = address;
  member.own = own;
  member.arrival = arrivals_++;
  member.last_heard.emplace(now);
  members_.emplace(peer, std::move(member));
  // More than could belong to the run: the strangers who have waited longest make room.
  const auto silent = [](const auto& entry) { return !entry.second.greeted && !entry.second.own; };
  const auto waiting = std::count_if(members_.begin(), members_.end(), silent);
  if (waiting <= options_.node_count + 64) return;
  const auto oldest = std::find_if(members_.begin(), members_.end(), silent);
  outgoing_.push_back({oldest->first, {}, false, /*drop=*/true});
  members_.erase(oldest);
}

void Meeting::on_message(Peer peer, const Message& message, SteadyTime now) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  Member* member = &found->second;
  if (!member->greeted) {
    greet(peer, member, message);
    return;
  }
  member->last_heard->note(now);
  if (message.kind == MessageKind::kBeat) return;
  if (message.kind == MessageKind::kLeave) {
    lose(peer, "its launcher has ended");
    return;
  }
  if (message.kind == MessageKind::kStop) {
    stop(peer, *member, message.signal);
    return;
  }
  if (message.attempt != attempt_) return;  // of an attempt that is over
  if (message.kind == MessageKind::kJoin) {
    take_in(peer, member, message);
  } else if (message.kind == MessageKind::kFailure && phase_ == Phase::kRunning) {
    fail(peer, message, now);
  } else if (message.kind == MessageKind::kDone && phase_ == Phase::kRunning) {
    member->done = true;
    finish_when_all_done();
  }
}

// --- how an attempt begins and ends ---

void Meeting::begin_when_complete() {
  const auto joined = std::count_if(members_.begin(), members_.end(),
                                    [](const auto& entry) { return entry.second.joined; });
  if (joined < options_.node_count) return;
  try {
    reserve_port();
  } catch (const UserError& error) {
    end_all(static_cast<int64_t>(error.code()), error.what());
    return;
  }
  assign_node_ranks();
  phase_ = Phase::kRunning;
  Message start;
  start.kind = MessageKind::kStart;
  start.attempt = attempt_;
  start.assignment.node_count = options_.node_count;
  start.assignment.master_addr = options_.master_addr;
  start.assignment.master_port = port_.port();
  start.assignment.world_size = 0;
  for (const Member* member : in_order())
    start.assignment.world_size += member->offer->local_world_size;
  for (const Member* member : in_order()) {
    start.assignment.node_rank = *member->offer->node_rank;
    for (const auto& [peer, entry] : members_) {
      if (&entry == member) outgoing_.push_back({peer, start});
    }
    start.assignment.first_rank += member->offer->local_world_size;
  }
}

void Meeting::fail(Peer reporter, const Message& message, SteadyTime now) {
  Message news = message;
  news.own = false;
  tell_all(news, reporter);
  news.own = true;
  outgoing_.push_back({reporter, news});
  if (!message.restart) {
    phase_ = Phase::kEnded;
    return;
  }
  ++attempt_;
  phase_ = Phase::kGathering;
  gathering_since_ = now;
  next_report_ = now + kReportEvery;
  for (auto& [peer, member] : members_) member.joined = member.done = false;
}

void Meeting::stop(Peer asked, const Member& member, int signal) {
  if (phase_ == Phase::kEnded) return;
  Message news;
  news.kind = MessageKind::kStop;
  news.attempt = attempt_;
  news.signal = signal;
  news.failure.host = member.host;
  news.failure.text =
      "the launcher of " + describe(member) + " was asked to stop by " + signal_name(signal);
  phase_ = Phase::kEnded;
  tell_all(news, asked);
}

void Meeting::finish_when_all_done() {
  for (const auto& [peer, member] : members_) {
    if (member.offer && !member.done) return;
  }
  phase_ = Phase::kEnded;
  Message news;
  news.kind = MessageKind::kAllDone;
  news.attempt = attempt_;
  tell_all(news);
}

void Meeting::on_broken(Peer peer, const std::string& how) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  if (!found->second.greeted) {
    // A closed connection alone is what a look at the port leaves behind, and no news.
    if (how != "its connection was closed") stranger(found->second, "no launcher: " + how);
    members_.erase(found);
  } else {
    lose(peer, how);
  }
}

void Meeting::lose(Peer peer, const std::string& how) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  const Member member = std::move(found->second);
  members_.erase(found);
  outgoing_.push_back({peer, {}, false, /*drop=*/true});
  if (phase_ == Phase::kEnded || !member.offer) return;
  if (phase_ == Phase::kGathering && attempt_ == 0) {
    if (member.own) return dismiss();
    log_.push_back("rendezvous: " + describe(member) + " has gone while waiting: " + how);
    return;
  }
  Message news;
  news.kind = MessageKind::kLost;
  news.attempt = attempt_;
  news.failure.host = member.host;
  news.failure.exit_code = static_cast<int>(ExitCode::kEnvironment);
  news.failure.text = "lost " + describe(member) + ": " + how + "; " + member.last_heard->text();
  phase_ = Phase::kEnded;
  tell_all(news);
}

// Nothing has begun: the others look for the next one to serve.
void Meeting::dismiss() {
  phase_ = Phase::kEnded;
  for (const auto& [peer, member] : std::exchange(members_, {}))
    outgoing_.push_back({peer, {}, false, /*drop=*/true});
}

// --- time ---

void Meeting::on_time(SteadyTime now) {
  remove_silent(now);
  if (phase_ != Phase::kGathering) return;
  if (now - gathering_since_ > options_.join_timeout) {
    time_out();
  } else if (now >= next_report_) {
    next_report_ = now + kReportEvery;
    Message waiting;
    waiting.kind = MessageKind::kWaiting;
    waiting.attempt = attempt_;
    waiting.text = "waiting for nodes; " + who_is_missing();
    tell_all(waiting);
  }
}

void Meeting::remove_silent(SteadyTime now) {
  std::vector<Peer> half_open, silent;
  for (auto& [peer, member] : members_) {
    if (member.own) continue;
    const auto limit = member.greeted ? options_.lost_after : kGreetingTime;
    if (member.last_heard->is_silent(now, limit))
      (member.greeted ? silent : half_open).push_back(peer);
  }
  for (const Peer peer : half_open) {
    outgoing_.push_back({peer, {}, false, /*drop=*/true});
    members_.erase(peer);
  }
  for (const Peer peer : silent) {
    lose(peer, silence_text(options_.lost_after));
  }
}

// --- telling ---

void Meeting::end_all(int64_t code, const std::string& text) {
  phase_ = Phase::kEnded;
  Message refused;
  refused.kind = MessageKind::kRefused;
  refused.attempt = attempt_;
  refused.code = code;
  refused.text = text;
  tell_all(refused);
}

void Meeting::refuse(Peer peer, int64_t code, const std::string& text) {
  Message refused;
  refused.kind = MessageKind::kRefused;
  refused.code = code;
  refused.text = text;
  outgoing_.push_back({peer, refused, /*close=*/true});
  members_.erase(peer);
}

void Meeting::tell_all(const Message& message, std::optional<Peer> but) {
  for (const auto& [peer, member] : members_) {
    if (member.greeted && peer != but) outgoing_.push_back({peer, message});
  }
}

std::vector<Meeting::Outgoing> Meeting::take_outgoing() { return std::exchange(outgoing_, {}); }
std::vector<std::string> Meeting::take_log() { return std::exchange(log_, {}); }

}  // namespace trainctl
