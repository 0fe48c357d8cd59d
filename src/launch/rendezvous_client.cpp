#include "launch/rendezvous_client.h"

#include <poll.h>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

constexpr std::chrono::seconds kLinger{2};

}  // namespace

RendezvousClient::RendezvousClient(Descriptor fd, std::string server,
                                   std::chrono::milliseconds heartbeat,
                                   std::chrono::milliseconds lost_after)
    : stream_(std::in_place, std::move(fd), kLargestFrame),
      server_(std::move(server)),
      heartbeat_(heartbeat),
      lost_after_(lost_after),
      last_heard_(std::chrono::steady_clock::now()),
      next_beat_(std::chrono::steady_clock::now() + heartbeat) {}

void RendezvousClient::send(const Message& message) {
  if (message.kind == MessageKind::kJoin) joining_ = message.attempt;
  if (message.kind == MessageKind::kStop) over_ = true;
  if (stream_) stream_->send(message);
}

short RendezvousClient::polled_events() const {
  return stream_ && stream_->has_unsent() ? POLLIN | POLLOUT : POLLIN;
}

void RendezvousClient::handle(bool readable, SteadyTime now) {
  if (stream_ && readable) read(now);
  if (!stream_) return;
  if (over_) {
    say_goodbye(now);
  } else {
    watch_server(readable, now);
  }
}

void RendezvousClient::say_goodbye(SteadyTime now) {
  if (!said_goodbye_) {
    said_goodbye_ = true;
    close_at_ = now + kLinger;
    Message goodbye;
    goodbye.kind = MessageKind::kLeave;
    stream_->send(goodbye);
  }
  // Closed by the server, which then has read it all; closing first would throw input away.
  if (!stream_->flush() || now > close_at_) stream_.reset();
}

void RendezvousClient::watch_server(bool readable, SteadyTime now) {
  const bool silent = last_heard_.is_silent(now, lost_after_);
  if (now >= next_beat_) {
    next_beat_ = now + heartbeat_;
    if (!stream_->has_unsent()) stream_->send(Message{});
  }
  if (!stream_->flush()) {
    lost_server(stream_->problem());
  } else if (!readable && silent) {
    // Only when nothing can be read: this process itself may have been stopped for a while.
    lost_server(silence_text(lost_after_));
  }
}

void RendezvousClient::read(SteadyTime now) {
  const bool open = stream_->receive();
  try {
    while (const auto message = stream_->next()) {
      last_heard_.note(now);
      obey(*message);
    }
  } catch (const WireError& error) {
    outcome_ = JoinOutcome{};
    outcome_->code = static_cast<int64_t>(ExitCode::kEnvironment);
    outcome_->text =
        "what answers at " + server_ + " is no trainctl launcher: " + error.what() +
        "; another program listens on that port: give another one with --rdzv-endpoint";
    if (begun_) lost_server("it sent what is no message");
    stream_.reset();
    return;
  }
  if (!open) lost_server(stream_->problem());
}

void RendezvousClient::obey(const Message& message) {
  switch (message.kind) {
    case MessageKind::kWelcome:
      welcomed_ = true;
      if (message.host != server_) server_ = message.host + " (" + server_ + ")";
      break;
    case MessageKind::kWaiting:
      last_waiting_ = message.text;
      log_.push_back("rendezvous: " + message.text);
      break;
    case MessageKind::kRefused:
      outcome_ = JoinOutcome{{}, message.code, message.text, false, true};
      over_ = true;
      break;
    case MessageKind::kStart:
      if (message.attempt != joining_) break;
      begun_ = true;
      joining_ = -1;
      outcome_ = JoinOutcome{message.assignment, 0, "", false, true};
      break;
    case MessageKind::kFailure:
      decided_attempt_ = message.attempt;
      over_ = over_ || !message.restart;
      if (!message.own) add_event(NodeEvent::Kind::kFailure, message);
      break;
    case MessageKind::kStop:
      add_event(NodeEvent::Kind::kStop, message);
      over_ = true;
      break;
    case MessageKind::kLost:
      add_event(NodeEvent::Kind::kNodeLost, message);
      over_ = true;
      break;
    case MessageKind::kAllDone:
      add_event(NodeEvent::Kind::kAllDone, message);
      over_ = true;
      break;
    case MessageKind::kHello:
    case MessageKind::kJoin:
    case MessageKind::kDone:
    case MessageKind::kBeat:
    case MessageKind::kLeave:
      break;
  }
}

void RendezvousClient::add_event(NodeEvent::Kind kind, const Message& message) {
  NodeEvent event;
  event.kind = kind;
  event.failure = message.failure;
  event.signal = message.signal;
  event.restart = message.restart;
  events_.push_back(std::move(event));
}

void RendezvousClient::lost_server(std::string why) {  // a copy: it may stand in the stream
  stream_.reset();
  if (over_) return;
  over_ = true;
  if (!begun_) {
    if (!outcome_) outcome_ = JoinOutcome{{}, 0, why, true, welcomed_};
    return;
  }
  NodeEvent event;
  event.kind = NodeEvent::Kind::kNodeLost;
  event.failure.host = server_;
  event.failure.exit_code = static_cast<int>(ExitCode::kEnvironment);
  event.failure.text = "lost the launcher on " + server_ +
                       ", node 0, which connects all others: " + why + "; " + last_heard_.text();
  events_.push_back(std::move(event));
}

}  // namespace trainctl
