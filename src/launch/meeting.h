// What the serving launcher decides: who belongs to the run, when an attempt begins, which failure
// came first, and who has to be told. Knows messages and time, but no sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/last_heard.h"
#include "launch/sockets.h"
#include "launch/wire.h"
#include "trainctl/launch/port_reservation.h"

namespace trainctl {

struct MeetingOptions {
  int64_t node_count = 2;
  std::string token;
  std::string host;         // of the serving launcher
  std::string master_addr;  // for the workers
  int64_t master_port = 0;  // 0: a free one for each attempt
  std::chrono::milliseconds join_timeout{300'000};
  std::chrono::milliseconds lost_after{10'000};
};

class Meeting {
 public:
  using Peer = int64_t;  // a connection's number

  struct Outgoing {
    Peer peer;
    Message message;
    bool close = false;  // the connection, once the message is sent
    bool drop = false;   // it at once, without a message
  };

  // Throws UserError where the port for the workers is taken.
  Meeting(MeetingOptions options, SteadyTime now);

  // `own` is the serving launcher's.
  void on_connected(Peer peer, const std::string& address, bool own, SteadyTime now);
  void on_message(Peer peer, const Message& message, SteadyTime now);
  void on_broken(Peer peer, const std::string& how);  // closed, or sent what is no message
  void on_time(SteadyTime now);

  std::vector<Outgoing> take_outgoing();
  std::vector<std::string> take_log();
  bool ended() const { return phase_ == Phase::kEnded; }
  bool belongs(Peer peer) const;

 private:
  enum class Phase { kGathering, kRunning, kEnded };

  struct Member {
    std::string address;
    bool own = false;
    bool greeted = false;
    bool joined = false;  // the current attempt
    bool done = false;
    int64_t arrival = 0;
    std::optional<LastHeard> last_heard;
    std::string host;
    std::optional<NodeOffer> offer;  // with the node rank it is given, once it is
  };
  using Members = std::map<Peer, Member>;

  void greet(Peer peer, Member* member, const Message& hello);
  void take_in(Peer peer, Member* member, const Message& message);
  bool admit(Peer peer, Member* member, const Message& message);
  std::string disagreement(const Member& member, const Message& message) const;
  void begin_when_complete();
  void assign_node_ranks();
  void reserve_port();
  void fail(Peer reporter, const Message& message, SteadyTime now);
  void stop(Peer asked, const Member& member, int signal);
  void finish_when_all_done();
  void lose(Peer peer, const std::string& how);
  void dismiss();
  void time_out();
  void remove_silent(SteadyTime now);

  void end_all(int64_t code, const std::string& text);
  void refuse(Peer peer, int64_t code, const std::string& text);
  void stranger(const Member& member, const std::string& how);
  void tell_all(const Message& message, std::optional<Peer> but = {});
  std::vector<const Member*> in_order() const;  // those with an offer, by node rank or arrival
  std::string describe(const Member& member) const;
  std::string who_is_missing() const;

  MeetingOptions options_;
  PortReservation port_;
  Phase phase_ = Phase::kGathering;
  int64_t attempt_ = 0;
  bool own_joined_ = false;
  std::vector<std::pair<Peer, Message>> early_;  // joined before the serving launcher itself
  int64_t arrivals_ = 0;
  SteadyTime gathering_since_;
  SteadyTime next_report_;
  Members members_;
  std::set<std::string> reported_strangers_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::string> log_;
};

}  // namespace trainctl
