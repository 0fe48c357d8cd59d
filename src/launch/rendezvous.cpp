// Several launchers as one NodeGroup: who serves the meeting, how the others find it, and what the
// supervisor hears of it. The conversation itself runs in RendezvousThread.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "launch/meeting_place.h"
#include "launch/open_files.h"
#include "launch/rendezvous_thread.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kReportEvery{10};
constexpr seconds kDecisionTime{2};  // to hear which failure came first
constexpr milliseconds kRetryPause{100};
constexpr milliseconds kLongestRetryPause{1000};
constexpr int kSilentClosesAllowed = 5;

SteadyTime now() { return std::chrono::steady_clock::now(); }

// Tells runs apart that meet at one endpoint by mistake. No protection against an attacker who
// reads along: a cluster's inner network is taken for granted, as by c10d and NCCL.
std::string token_of(const std::string& run_id) {
  Checksum sum;
  const std::string text = "trainctl launchers\n" + run_id;
  sum.update(std::as_bytes(std::span(text.data(), text.size())));
  return to_hex(sum.digest());
}

class RendezvousGroup : public NodeGroup {
 public:
  explicit RendezvousGroup(const RendezvousOptions& options)
      : options_(options),
        place_(options),
        endpoint_(place_.text()),
        ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!ready_.open()) throw system_call_error("open an event descriptor", errno);
  }

  std::optional<NodeAssignment> join(const NodeOffer& offer, int64_t attempt,
                                     Stopped stopped) override;
  void report_failure(const WorkerFailure& failure, bool restart) override;
  void report_done() override { send(MessageKind::kDone); }
  void report_stop(int signal) override;
  int event_fd() const override { return ready_.get(); }
  std::optional<NodeEvent> next_event() override;

 private:
  bool meet(const NodeOffer& offer, SteadyTime deadline, Stopped stopped);
  bool serve_if_mine(const NodeOffer& offer);
  std::string who_hosts(const NodeOffer& offer) const;
  void serve(Descriptor listener, const NodeOffer& offer);
  void start(std::unique_ptr<RendezvousServer> server, Descriptor own, const NodeOffer& offer);
  std::optional<JoinOutcome> wait_for_outcome(SteadyTime deadline, Stopped stopped);
  void note_closed(const JoinOutcome& outcome);
  void send(MessageKind kind);
  void write_log();

  RendezvousOptions options_;
  MeetingPlace place_;
  std::string endpoint_;  // for messages
  Descriptor ready_;
  int64_t attempt_ = 0;
  int silent_closes_ = 0;
  std::unique_ptr<RendezvousThread> thread_;
};

std::optional<NodeAssignment> RendezvousGroup::join(const NodeOffer& offer, int64_t attempt,
                                                    Stopped stopped) {
  attempt_ = attempt;
  const SteadyTime deadline = now() + options_.join_timeout;
  for (;;) {
    if (!thread_ && !meet(offer, deadline, stopped)) return std::nullopt;
    Message message;
    message.kind = MessageKind::kJoin;
    message.attempt = attempt;
    message.offer = offer;
    message.node_count = options_.node_count;
    thread_->send(message);
    const auto outcome = wait_for_outcome(deadline, stopped);
    if (!outcome) return std::nullopt;
    if (outcome->assignment) {
      NodeAssignment assignment = *outcome->assignment;
      assignment.run_id = options_.run_id;
      return assignment;
    }
    if (!outcome->closed) throw UserError(static_cast<ExitCode>(outcome->code), outcome->text);
    note_closed(*outcome);
    thread_.reset();
    if (!pause(kRetryPause, stopped)) return std::nullopt;
  }
}

// The serving launcher may be started again, but what never says a word is another program.
void RendezvousGroup::note_closed(const JoinOutcome& outcome) {
  if (outcome.welcomed) {
    silent_closes_ = 0;
    log_info("rendezvous: the launcher at " + endpoint_ + " has gone (" + outcome.text +
             "); waiting for it to come again");
    return;
  }
  if (++silent_closes_ >= kSilentClosesAllowed) {
    throw environment_error(
        "what listens at " + endpoint_ + " is no trainctl launcher: it closes every connection (" +
        outcome.text + "); give another port with --rdzv-endpoint, or stop that program");
  }
  log_info("rendezvous: what listens at " + endpoint_ + " has not greeted as a launcher does (" +
           outcome.text + "); trying again");
}

std::optional<JoinOutcome> RendezvousGroup::wait_for_outcome(SteadyTime deadline, Stopped stopped) {
  for (;;) {
    write_log();
    if (auto outcome = thread_->take_outcome()) return outcome;
    NodeEvent event;
    if (thread_->stop_or_loss_pending(&event)) {
      if (event.kind == NodeEvent::Kind::kStop) return std::nullopt;
      throw environment_error(event.failure.text);
    }
    if (stopped()) return std::nullopt;
    // The server ends the wait itself; this is for one whose --join-timeout is longer.
    if (now() > deadline + seconds(1)) {
      const std::string waiting = thread_->last_waiting();
      throw environment_error("not all " + counted(options_.node_count, "node") + " met at " +
                              endpoint_ + " within " + seconds_text(options_.join_timeout) +
                              " (--join-timeout)" + (waiting.empty() ? "" : "; " + waiting));
    }
    pollfd entry = {ready_.get(), POLLIN, 0};
    ::poll(&entry, 1, 50);
    eventfd_t ignored = 0;
    if ((entry.revents & POLLIN) != 0) ::eventfd_read(ready_.get(), &ignored);
  }
}

// --- how launchers find each other ---

// False: stopped. Afterwards the thread runs, as server or as client.
bool RendezvousGroup::meet(const NodeOffer& offer, SteadyTime deadline, Stopped stopped) {
  const SteadyTime since = now();
  SteadyTime report_at = since;
  std::string reported;
  for (milliseconds between = kRetryPause;; between = std::min(2 * between, kLongestRetryPause)) {
    if (!place_.find(deadline, stopped)) return false;
    if (serve_if_mine(offer)) return true;
    std::string problem;
    Descriptor connection = place_.call(stopped, &problem);
    if (connection.open()) {
      start(nullptr, std::move(connection), offer);
      return true;
    }
    if (stopped()) return false;
    if (now() > deadline) {
      throw environment_error(
          "no launcher answered at " + endpoint_ + " within " +
          seconds_text(options_.join_timeout) + " (--join-timeout): " + problem + who_hosts(offer) +
          "; start the launcher of node 0 on that host, and see that the port is "
          "open for the other nodes");
    }
    if (problem != reported || now() >= report_at) {
      log_info("rendezvous: no launcher answers at " + endpoint_ + " yet (" + problem + ")" +
               who_hosts(offer) + "; trying for " +
               seconds_text(std::chrono::duration_cast<milliseconds>(deadline - now())) + " more");
      reported = problem;
      report_at = now() + kReportEvery;
    }
    if (!pause(between, stopped)) return false;
  }
}

// Node 0 serves. Where no rank is given, it is the launcher on the endpoint's host that comes
// first.
bool RendezvousGroup::serve_if_mine(const NodeOffer& offer) {
  if (offer.node_rank && *offer.node_rank != 0) return false;
  const bool here = place_.is_here();
  if (!offer.node_rank && !here) return false;
  Descriptor listener = place_.listen();
  if (listener.open()) {
    if (!here) {
      log_warning(
          "rendezvous: " + options_.host + " (" + place_.first_address() +
          ") is no address of this host, although it is node 0; the other nodes will look for "
          "it there");
    }
    log_info("rendezvous: serving it at " + endpoint_ + " for " +
             counted(options_.node_count, "node") +
             (place_.is_this_machine_only() ? ", of this machine only" : ""));
    serve(std::move(listener), offer);
    return true;
  }
  if (errno == EADDRINUSE && !offer.node_rank) return false;
  const int error = errno;
  if (means_too_many_open_files(error)) throw system_call_error("serve the meeting", error);
  throw environment_error(
      "the launchers' meeting cannot be served at " + endpoint_ + ": " + error_text(error) +
      (error == EADDRINUSE ? "; another launcher or program uses the port: give "
                             "another one with --rdzv-endpoint"
                           : "; give another --rdzv-endpoint"));
}

// Two nodes that both have --node-rank 1 would wait for each other until the time is over.
std::string RendezvousGroup::who_hosts(const NodeOffer& offer) const {
  if (!offer.node_rank) return "";
  const std::string own = std::to_string(*offer.node_rank);
  return "; node 0 hosts the meeting, and this is node " + own + " (--node-rank)" +
         (place_.is_here() && !place_.is_this_machine_only()
              ? ", although " + options_.host + " is this host: its node rank should be 0"
              : "");
}

void RendezvousGroup::serve(Descriptor listener, const NodeOffer& offer) {
  MeetingOptions meeting;
  meeting.node_count = options_.node_count;
  meeting.token = token_of(options_.run_id);
  meeting.host = offer.host;
  meeting.master_addr = !options_.master_addr.empty()  ? options_.master_addr
                        : !options_.local_addr.empty() ? options_.local_addr
                                                       : options_.host;
  meeting.master_port = options_.master_port;
  meeting.join_timeout = options_.join_timeout;
  meeting.lost_after = options_.lost_after;
  auto server =
      std::make_unique<RendezvousServer>(std::move(listener), meeting, options_.heartbeat);
  Descriptor own = server->connect_own();
  start(std::move(server), std::move(own), offer);
}

void RendezvousGroup::start(std::unique_ptr<RendezvousServer> server, Descriptor own,
                            const NodeOffer& offer) {
  RendezvousClient client(std::move(own), server ? offer.host : endpoint_, options_.heartbeat,
                          options_.lost_after);
  thread_ = std::make_unique<RendezvousThread>(
      std::move(server), std::move(client), options_.heartbeat, options_.lost_after, ready_.get());
  Message hello;
  hello.kind = MessageKind::kHello;
  hello.token = token_of(options_.run_id);
  hello.host = offer.host;
  thread_->send(hello);
}

// --- what is reported and heard ---

void RendezvousGroup::send(MessageKind kind) {
  Message message;
  message.kind = kind;
  message.attempt = attempt_;
  if (thread_) thread_->send(message);
}

void RendezvousGroup::report_failure(const WorkerFailure& failure, bool restart) {
  if (!thread_) return;
  Message message;
  message.kind = MessageKind::kFailure;
  message.attempt = attempt_;
  message.failure = failure;
  message.restart = restart;
  thread_->send(message);
  for (const SteadyTime end = now() + kDecisionTime; now() < end;) {
    if (thread_->decided_attempt() >= attempt_ || thread_->over()) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void RendezvousGroup::report_stop(int signal) {
  if (!thread_) return;
  Message message;
  message.kind = MessageKind::kStop;
  message.attempt = attempt_;
  message.signal = signal;
  thread_->send(message);
}

std::optional<NodeEvent> RendezvousGroup::next_event() {
  eventfd_t ignored = 0;
  ::eventfd_read(ready_.get(), &ignored);  // first: what comes from here on rings again
  if (!thread_) return std::nullopt;
  write_log();
  auto event = thread_->take_event();
  if (event) ::eventfd_write(ready_.get(), 1);  // there may be more
  return event;
}

void RendezvousGroup::write_log() {
  for (const std::string& line : thread_->take_log()) log_info(line);
}

}  // namespace

std::unique_ptr<NodeGroup> make_rendezvous_node_group(const RendezvousOptions& options) {
  return std::make_unique<RendezvousGroup>(options);
}

}  // namespace trainctl
