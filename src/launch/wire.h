// What launchers say to each other: frames of four bytes of length (big endian) and one JSON
// object. Everything read here may come from a stranger.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "trainctl/launch/node_group.h"

namespace trainctl {

constexpr int64_t kWireVersion = 1;
constexpr size_t kLargestFrame = size_t{1} << 20;
// Before the other side has shown that it belongs to the run.
constexpr size_t kLargestGreeting = size_t{64} << 10;

class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class MessageKind {
  kHello,    // version, token, host: a launcher greets
  kWelcome,  // host: the serving launcher's
  kRefused,  // code, text: why the run, or this launcher in it, cannot begin
  kJoin,     // attempt, offer, node_count
  kWaiting,  // text: who is missing
  kStart,    // attempt, assignment
  kFailure,  // attempt, failure, restart; to launchers also own
  kDone,     // attempt
  kStop,     // attempt, signal; to launchers also failure (who, and a text)
  kLost,     // attempt, failure (who, and a text)
  kAllDone,  // attempt
  kBeat,     // nothing: a sign of life
  kLeave,    // nothing: the sender closes the connection on purpose
};

// One type for all kinds; each uses the fields named beside it above.
struct Message {
  MessageKind kind = MessageKind::kBeat;
  int64_t attempt = 0;
  int64_t version = kWireVersion;
  std::string token;
  std::string host;
  std::string text;
  int64_t code = 0;
  int64_t node_count = 0;
  NodeOffer offer;
  NodeAssignment assignment;
  WorkerFailure failure;
  int signal = 0;
  bool restart = false;
  bool own = false;  // the receiver itself reported this failure
};

// A whole frame. Texts of any bytes are taken: what is no UTF-8 is replaced, what is too long loses
// its middle.
std::string encode(const Message& message);

// The JSON object of one frame. Throws WireError for everything that `encode` does not write.
Message decode(std::string_view json);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  explicit FrameReader(size_t largest) : largest_(largest) {}
  void set_largest(size_t largest) { largest_ = largest; }

  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole frame's content. Throws WireError as soon as a length is beyond the limit.
  std::optional<std::string> next();

 private:
  size_t largest_;
  std::string buffer_;
};

}  // namespace trainctl
