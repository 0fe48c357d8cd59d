// Any bytes as what a stranger sends to the launchers' meeting: cut into frames, read as messages,
// and given to a meeting that waits for two nodes. Nothing may crash, allocate beyond what came, or
// be accepted that would not be written again as the same message.
#include <cstdlib>
#include <string>
#include <string_view>

#include "launch/meeting.h"
#include "launch/wire.h"

namespace {

using trainctl::Meeting;
using trainctl::Message;

void require(bool condition) {
  if (!condition) std::abort();
}

trainctl::MeetingOptions options() {
  trainctl::MeetingOptions result;
  result.token = "0123456789abcdef";
  result.host = "a";
  result.master_addr = "a";
  return result;
}

// The serving launcher has joined already.
void join_own(Meeting* meeting, trainctl::SteadyTime now) {
  Message message;
  message.kind = trainctl::MessageKind::kHello;
  message.token = options().token;
  meeting->on_message(0, message, now);
  message.kind = trainctl::MessageKind::kJoin;
  message.node_count = 2;
  message.offer.agree = {{"config", "12"}};
  meeting->on_message(0, message, now);
}

// What was understood is understood again, and is written the same from then on.
void check_round_trip(const Message& message) {
  const std::string frame = trainctl::encode(message);
  require(frame.size() <= trainctl::kLargestFrame);
  const Message again = trainctl::decode(std::string_view(frame).substr(4));
  require(trainctl::encode(again) == frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainctl::FrameReader reader(trainctl::kLargestGreeting);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const trainctl::SteadyTime now{};
  Meeting meeting(options(), now);
  meeting.on_connected(0, "", /*own=*/true, now);
  meeting.on_connected(1, "10.0.0.1", /*own=*/false, now);
  join_own(&meeting, now);
  // In two pieces, as a socket may hand them over.
  size_t frames = 0;
  try {
    for (const auto piece : {bytes.substr(0, size / 2), bytes.substr(size / 2)}) {
      reader.feed(piece);
      while (const auto content = reader.next()) {
        require(content->size() <= trainctl::kLargestGreeting && ++frames <= size / 4);
        const Message message = trainctl::decode(*content);
        check_round_trip(message);
        meeting.on_message(1, message, now);
      }
    }
  } catch (const trainctl::WireError& error) {
    meeting.on_broken(1, error.what());
  }
  meeting.on_time(now + std::chrono::hours(1));
  for (const auto& outgoing : meeting.take_outgoing())
    require(!trainctl::encode(outgoing.message).empty());
  return 0;
}
