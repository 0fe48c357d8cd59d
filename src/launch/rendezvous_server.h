// The serving launcher's sockets: takes connections, hands their messages to the Meeting, and sends
// what it decides.
#pragma once

#include <poll.h>

#include <map>
#include <vector>

#include "launch/framed_connection.h"
#include "launch/meeting.h"

namespace trainctl {

class RendezvousServer {
 public:
  RendezvousServer(Descriptor listener, MeetingOptions options,
                   std::chrono::milliseconds heartbeat);

  // The serving launcher's own connection to itself: the other end of it.
  Descriptor connect_own();

  void add_polled(std::vector<pollfd>* polled) const;
  void handle(const std::vector<pollfd>& polled, SteadyTime now);

  std::vector<std::string> take_log() { return meeting_.take_log(); }
  // Everybody has been told how it ended, and has closed the connection.
  bool deserted() const { return connections_.empty(); }
  void close_listener() { listener_.reset(); }

 private:
  enum class State {
    kOpen,
    kSending,    // what is left, then no more
    kLingering,  // until the other side has read it: closing with input unread would throw it away
    kDead,
  };
  struct Connection {
    FramedConnection stream;
    State state = State::kOpen;
    SteadyTime close_at = {};  // of a lingering one
  };

  void accept_all(SteadyTime now);
  void add(Descriptor fd, const std::string& address, bool own, SteadyTime now);
  void read_from(Meeting::Peer peer, Connection* connection, SteadyTime now);
  void obey_meeting();
  void beat(SteadyTime now);
  void flush_all(SteadyTime now);

  Descriptor listener_;
  Meeting meeting_;
  std::chrono::milliseconds heartbeat_;
  SteadyTime next_beat_;
  SteadyTime accept_again_;
  Meeting::Peer next_peer_ = 0;
  std::map<Meeting::Peer, Connection> connections_;
};

}  // namespace trainctl
