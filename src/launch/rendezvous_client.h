// A launcher's own side of the rendezvous: what it hears becomes the outcome of its join, events
// and lines of log. Runs in the rendezvous' thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/framed_connection.h"
#include "launch/last_heard.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {

struct JoinOutcome {
  std::optional<NodeAssignment> assignment;
  int64_t code = 0;  // of a refusal
  std::string text;
  bool closed = false;    // the connection, before anything had begun
  bool welcomed = false;  // the other side had shown itself to be a launcher
};

class RendezvousClient {
 public:
  RendezvousClient(Descriptor fd, std::string server, std::chrono::milliseconds heartbeat,
                   std::chrono::milliseconds lost_after);

  void send(const Message& message);
  // Sends what is left, says goodbye, and closes once the other side has read it.
  void leave() { over_ = true; }

  int fd() const { return stream_ ? stream_->fd() : -1; }
  short polled_events() const;
  void handle(bool readable, SteadyTime now);

  // What has come of it, each handed out once.
  std::optional<JoinOutcome> take_outcome() { return std::exchange(outcome_, std::nullopt); }
  std::vector<NodeEvent> take_events() { return std::exchange(events_, {}); }
  std::vector<std::string> take_log() { return std::exchange(log_, {}); }
  int64_t decided_attempt() const { return decided_attempt_; }  // the last one whose end is known
  bool over() const { return over_; }
  const std::string& last_waiting() const { return last_waiting_; }

 private:
  void obey(const Message& message);
  void add_event(NodeEvent::Kind kind, const Message& message);
  void lost_server(std::string why);
  void read(SteadyTime now);
  void say_goodbye(SteadyTime now);
  void watch_server(bool readable, SteadyTime now);

  std::optional<FramedConnection> stream_;
  std::string server_;  // host or endpoint, for messages
  std::chrono::milliseconds heartbeat_;
  std::chrono::milliseconds lost_after_;
  LastHeard last_heard_;
  SteadyTime next_beat_;
  int64_t joining_ = -1;  // attempt
  bool welcomed_ = false;
  bool begun_ = false;  // an attempt, ever
  bool over_ = false;   // the run has ended for this launcher: nothing more is expected
  bool said_goodbye_ = false;
  SteadyTime close_at_ = {};
  int64_t decided_attempt_ = -1;
  std::optional<JoinOutcome> outcome_;
  std::vector<NodeEvent> events_;
  std::vector<std::string> log_;
  std::string last_waiting_;
};

}  // namespace trainctl
