#include "launch/wire.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainctl/launch/agreed_values.h"

namespace trainctl {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 4;
constexpr size_t kLongestText = size_t{128} << 10;  // escaped, six times as long: still one frame
constexpr size_t kLongestName = 512;  // as written; what is read may have grown by replacements
constexpr int64_t kMost = int64_t{1} << 31;  // of ranks, nodes, attempts
constexpr std::array kNames = {"hello",    "welcome", "refused", "join", "waiting",
                               "start",    "failure", "done",    "stop", "lost",
                               "all_done", "beat",    "leave"};

std::string shortened(const std::string& text) {
  if (text.size() <= kLongestText) return text;
  const size_t half = kLongestText / 2;
  return text.substr(0, half) + "\n[…]\n" + text.substr(text.size() - half);
}

// A name as it may be sent: short, without line ends and escape sequences.
std::string clean(const std::string& name) {
  std::string result = name.substr(0, kLongestName);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

// What bytes that are no frame look like; it may be shown.
std::string describe_strange(std::string_view bytes) {
  const std::string line(bytes.substr(0, std::min<size_t>(bytes.find_first_of("\r\n"), 80)));
  const auto begins = [&line](std::initializer_list<const char*> signs) {
    return std::any_of(signs.begin(), signs.end(),
                       [&line](const char* sign) { return line.starts_with(sign); });
  };
  const bool readable = line.size() > kLengthBytes && clean(line) == line &&
                        std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20; });
  if (begins({"HTTP/", "<!DOCTYPE", "<html", "<HTML"}))
    return "an HTTP answer came ('" + clean(line) + "')";
  if (begins({"GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "CONNECT ", "PRI "}))
    return "an HTTP request came ('" + clean(line) + "')";
  return readable ? "the text '" + line + "' came" : "its bytes are no message";
}

// --- reading ---

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw WireError(std::string("no '") + key + "'");
  return *found;
}

int64_t integer(const Json& object, const char* key, int64_t low, int64_t high) {
  const Json& value = member(object, key);
  // A large unsigned number must not turn into a small signed one.
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    throw WireError(std::string("'") + key + "' is no number in its range");
  }
  return value.get<int64_t>();
}

bool boolean(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_boolean()) throw WireError(std::string("'") + key + "' is neither true nor false");
  return value.get<bool>();
}

std::string text(const Json& value, const char* what) {
  if (!value.is_string()) throw WireError(std::string("'") + what + "' is no text");
  const auto& content = value.get_ref<const std::string&>();
  if (content.size() > 4 * kLongestText) throw WireError(std::string("'") + what + "' is too long");
  return content;
}

std::string text(const Json& object, const char* what, const char* key) {
  return text(member(object, key), what);
}

// Names reach the screen of every node: no line ends, no escape sequences.
std::string name(const Json& value, const char* what) {
  const std::string content = text(value, what);
  const bool control = std::any_of(content.begin(), content.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (content.size() > 4 * kLongestName || control)
    throw WireError(std::string("'") + what + "' is no name");
  return content;
}

std::string name_of(const Json& object, const char* key) { return name(member(object, key), key); }

NodeOffer read_offer(const Json& json) {
  NodeOffer offer;
  offer.host = name_of(json, "host");
  if (json.contains("node_rank")) offer.node_rank = integer(json, "node_rank", 0, kMost);
  offer.local_world_size = integer(json, "local_world_size", 1, kMost);
  const Json& agree = member(json, "agree");
  if (!agree.is_array() || agree.size() > kMostAgreedValues)
    throw WireError("'agree' is no short list");
  for (const Json& pair : agree) {
    if (!pair.is_array() || pair.size() != 2) throw WireError("'agree' holds no pairs");
    offer.agree.emplace_back(name(pair[0], "agree"), name(pair[1], "agree"));
  }
  return offer;
}

NodeAssignment read_assignment(const Json& json) {
  NodeAssignment assignment;
  assignment.node_rank = integer(json, "node_rank", 0, kMost);
  assignment.node_count = integer(json, "node_count", 1, kMost);
  assignment.first_rank = integer(json, "first_rank", 0, kMost);
  assignment.world_size = integer(json, "world_size", 1, kMost);
  assignment.master_addr = name_of(json, "master_addr");
  assignment.master_port = integer(json, "master_port", 1, 65535);
  return assignment;
}

WorkerFailure read_failure(const Json& json) {
  WorkerFailure failure;
  failure.host = name_of(json, "host");
  failure.rank = integer(json, "rank", 0, kMost);
  failure.local_rank = integer(json, "local_rank", 0, kMost);
  failure.exit_code = static_cast<int>(integer(json, "exit_code", 0, 255));
  failure.signal = static_cast<int>(integer(json, "signal", 0, 127));
  failure.text = text(json, "text", "text");
  failure.may_restart = boolean(json, "may_restart");
  return failure;
}

MessageKind read_kind(const Json& json) {
  const std::string word = name_of(json, "kind");
  const auto found = std::find(kNames.begin(), kNames.end(), word);
  if (found == kNames.end()) throw WireError("a message of unknown kind");
  return static_cast<MessageKind>(found - kNames.begin());
}

void read_fields(const Json& json, Message* message) {
  switch (message->kind) {
    case MessageKind::kHello:
      message->version = integer(json, "version", 0, kMost);
      message->token = name_of(json, "token");
      message->host = name_of(json, "host");
      break;
    case MessageKind::kWelcome:
      message->host = name_of(json, "host");
      break;
    case MessageKind::kRefused:
      message->code = integer(json, "code", 1, 255);
      message->text = text(json, "text", "text");
      break;
    case MessageKind::kWaiting:
      message->text = text(json, "text", "text");
      break;
    case MessageKind::kJoin:
      message->offer = read_offer(member(json, "offer"));
      message->node_count = integer(json, "node_count", 1, kMost);
      break;
    case MessageKind::kStart:
      message->assignment = read_assignment(member(json, "assignment"));
      break;
    case MessageKind::kFailure:
      message->restart = boolean(json, "restart");
      message->own = boolean(json, "own");
      [[fallthrough]];
    case MessageKind::kLost:
      message->failure = read_failure(member(json, "failure"));
      break;
    case MessageKind::kStop:
      message->signal = static_cast<int>(integer(json, "signal", 0, 127));
      message->failure = read_failure(member(json, "failure"));
      break;
    case MessageKind::kDone:
    case MessageKind::kAllDone:
    case MessageKind::kBeat:
    case MessageKind::kLeave:
      break;
  }
}

// --- writing ---

Json to_json(const NodeOffer& offer) {
  Json json = {{"host", clean(offer.host)}, {"local_world_size", offer.local_world_size}};
  if (offer.node_rank) json["node_rank"] = *offer.node_rank;
  json["agree"] = Json::array();
  for (const auto& [key, value] : offer.agree) json["agree"].push_back({clean(key), clean(value)});
  return json;
}

Json to_json(const NodeAssignment& assignment) {
  return {{"node_rank", assignment.node_rank},
          {"node_count", assignment.node_count},
          {"first_rank", assignment.first_rank},
          {"world_size", assignment.world_size},
          {"master_addr", clean(assignment.master_addr)},
          {"master_port", assignment.master_port}};
}

Json to_json(const WorkerFailure& failure) {
  return {{"host", clean(failure.host)},       {"rank", failure.rank},
          {"local_rank", failure.local_rank},  {"exit_code", failure.exit_code},
          {"signal", failure.signal},          {"text", shortened(failure.text)},
          {"may_restart", failure.may_restart}};
}

void write_fields(const Message& message, Json* json) {
  switch (message.kind) {
    case MessageKind::kHello:
      (*json)["version"] = message.version;
      (*json)["token"] = clean(message.token);
      (*json)["host"] = clean(message.host);
      break;
    case MessageKind::kWelcome:
      (*json)["host"] = clean(message.host);
      break;
    case MessageKind::kRefused:
      (*json)["code"] = message.code;
      [[fallthrough]];
    case MessageKind::kWaiting:
      (*json)["text"] = shortened(message.text);
      break;
    case MessageKind::kJoin:
      (*json)["offer"] = to_json(message.offer);
      (*json)["node_count"] = message.node_count;
      break;
    case MessageKind::kStart:
      (*json)["assignment"] = to_json(message.assignment);
      break;
    case MessageKind::kFailure:
      (*json)["restart"] = message.restart;
      (*json)["own"] = message.own;
      [[fallthrough]];
    case MessageKind::kLost:
      (*json)["failure"] = to_json(message.failure);
      break;
    case MessageKind::kStop:
      (*json)["signal"] = message.signal;
      (*json)["failure"] = to_json(message.failure);
      break;
    case MessageKind::kDone:
    case MessageKind::kAllDone:
    case MessageKind::kBeat:
    case MessageKind::kLeave:
      break;
  }
}

}  // namespace

std::string encode(const Message& message) {
  Json json = {{"kind", kNames.at(static_cast<size_t>(message.kind))},
               {"attempt", message.attempt}};
  write_fields(message, &json);
  std::string content = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  // A web server that was called by mistake answers at once instead of waiting for the line's end.
  if (message.kind == MessageKind::kHello) content += "\r\n\r\n";
  std::string frame;
  for (size_t i = kLengthBytes; i-- > 0;) {
    frame.push_back(static_cast<char>((content.size() >> (8 * i)) & 0xff));
  }
  return frame + content;
}

Message decode(std::string_view json_text) {
  const Json json = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw WireError("no JSON object");
  Message message;
  message.kind = read_kind(json);
  message.attempt = integer(json, "attempt", 0, kMost);
  read_fields(json, &message);
  return message;
}

std::optional<std::string> FrameReader::next() {
  if (buffer_.size() < kLengthBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length = length << 8 | static_cast<unsigned char>(buffer_[i]);
  if (length == 0 || length > largest_) throw WireError(describe_strange(buffer_));
  if (buffer_.size() < kLengthBytes + length) return std::nullopt;
  std::string content = buffer_.substr(kLengthBytes, length);
  buffer_.erase(0, kLengthBytes + length);
  return content;
}

}  // namespace trainctl
