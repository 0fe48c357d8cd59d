// One connection between two launchers: messages in, messages out, never blocking.
#pragma once

#include <optional>
#include <string>

#include "launch/sockets.h"
#include "launch/wire.h"

namespace trainctl {

constexpr const char* kClosed = "its connection was closed";

class FramedConnection {
 public:
  FramedConnection(Descriptor fd, size_t largest) : fd_(std::move(fd)), reader_(largest) {}

  int fd() const { return fd_.get(); }
  void set_largest(size_t largest) { reader_.set_largest(largest); }

  // Queued, and sent as the other side takes it.
  void send(const Message& message);
  bool has_unsent() const { return sent_ < unsent_.size(); }

  // Both false once the connection is of no more use; `problem` then says why.
  bool receive();
  bool flush();
  const std::string& problem() const { return problem_; }

  // No more will be sent: the other side reads what is underway, then the end.
  void finish_sending();

  std::optional<Message> next();  // throws WireError

 private:
  bool broken(std::string why);

  Descriptor fd_;
  FrameReader reader_;
  std::string unsent_;
  size_t sent_ = 0;
  std::string problem_;
};

}  // namespace trainctl
