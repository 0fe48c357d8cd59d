#include "launch/rendezvous_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launch/open_files.h"

namespace trainctl {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{200};  // where descriptors run out
constexpr std::chrono::seconds kLinger{2};

}  // namespace

RendezvousServer::RendezvousServer(Descriptor listener, MeetingOptions options,
                                   std::chrono::milliseconds heartbeat)
    : listener_(std::move(listener)),
      meeting_(std::move(options), std::chrono::steady_clock::now()),
      heartbeat_(heartbeat) {}

Descriptor RendezvousServer::connect_own() {
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw system_call_error("make a socket pair", errno);
  }
  add(Descriptor(ends[0]), "", /*own=*/true, std::chrono::steady_clock::now());
  return Descriptor(ends[1]);
}

void RendezvousServer::add(Descriptor fd, const std::string& address, bool own, SteadyTime now) {
  const Meeting::Peer peer = next_peer_++;
  connections_.emplace(peer, Connection{FramedConnection(std::move(fd), kLargestGreeting)});
  meeting_.on_connected(peer, address, own, now);
}

void RendezvousServer::add_polled(std::vector<pollfd>* polled) const {
  if (listener_.open() && std::chrono::steady_clock::now() >= accept_again_)
    polled->push_back({listener_.get(), POLLIN, 0});
  for (const auto& [peer, connection] : connections_) {
    const short events = connection.stream.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    polled->push_back({connection.stream.fd(), events, 0});
  }
}

void RendezvousServer::handle(const std::vector<pollfd>& polled, SteadyTime now) {
  std::map<int, short> ready;
  for (const pollfd& entry : polled) {
    if (entry.revents != 0) ready[entry.fd] = entry.revents;
  }
  for (auto& [peer, connection] : connections_) {
    const auto found = ready.find(connection.stream.fd());
    if (found != ready.end() && (found->second & ~POLLOUT) != 0) read_from(peer, &connection, now);
  }
  if (listener_.open() && ready.contains(listener_.get())) accept_all(now);
  meeting_.on_time(now);
  beat(now);
  obey_meeting();
  flush_all(now);
}

void RendezvousServer::accept_all(SteadyTime now) {
  for (;;) {
    Accepted accepted = accept_from(listener_.get());
    if (accepted.fd.open()) {
      add(std::move(accepted.fd), accepted.from.host(), /*own=*/false, now);
    } else if (errno == ECONNABORTED || errno == EINTR) {
      continue;
    } else {
      if (errno != EAGAIN && errno != EWOULDBLOCK) accept_again_ = now + kAcceptPause;
      return;
    }
  }
}

void RendezvousServer::read_from(Meeting::Peer peer, Connection* connection, SteadyTime now) {
  const bool open = connection->stream.receive();
  try {
    while (connection->state == State::kOpen) {
      const auto message = connection->stream.next();
      if (!message) break;
      meeting_.on_message(peer, *message, now);
      if (meeting_.belongs(peer)) connection->stream.set_largest(kLargestFrame);
    }
  } catch (const WireError& error) {
    meeting_.on_broken(peer, std::string("it sent what is no message (") + error.what() + ")");
    connection->state = State::kDead;
    return;
  }
  if (open) return;
  meeting_.on_broken(peer, connection->stream.problem());
  connection->state = State::kDead;
}

void RendezvousServer::beat(SteadyTime now) {
  if (now < next_beat_) return;
  next_beat_ = now + heartbeat_;
  for (auto& [peer, connection] : connections_) {
    if (meeting_.belongs(peer) && !connection.stream.has_unsent())
      connection.stream.send(Message{});
  }
}

void RendezvousServer::obey_meeting() {
  for (const Meeting::Outgoing& outgoing : meeting_.take_outgoing()) {
    const auto found = connections_.find(outgoing.peer);
    if (found == connections_.end() || found->second.state != State::kOpen) continue;
    if (outgoing.drop) {
      found->second.state = State::kDead;
      continue;
    }
    found->second.stream.send(outgoing.message);
    if (outgoing.close) found->second.state = State::kSending;
  }
}

void RendezvousServer::flush_all(SteadyTime now) {
  for (auto& [peer, connection] : connections_) {
    if (connection.state == State::kDead) continue;
    if (!connection.stream.flush()) {
      meeting_.on_broken(peer, connection.stream.problem());
      connection.state = State::kDead;
    } else if (connection.state == State::kSending && !connection.stream.has_unsent()) {
      connection.stream.finish_sending();
      connection.state = State::kLingering;
      connection.close_at = now + kLinger;
    } else if (connection.state == State::kLingering && now > connection.close_at) {
      connection.state = State::kDead;
    }
  }
  std::erase_if(connections_, [](const auto& entry) { return entry.second.state == State::kDead; });
}

}  // namespace trainctl
