#include "trainctl/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Sequence {
  size_t length =
      1;  // bytes; of an invalid one, the maximal part that could have begun a valid one
  bool valid = false;
};

// Unicode 15, table 3-7. Only the second byte's range depends on the first.
Sequence sequence_at(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  uint8_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // overlong
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;   // overlong
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (at + i == bytes.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

// First position at or after `at` whose byte is not ASCII, eight bytes at a time.
size_t skip_ascii(std::string_view bytes, size_t at) {
  while (at + 8 <= bytes.size()) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if ((word & 0x8080808080808080ull) != 0) break;
    at += 8;
  }
  while (at < bytes.size() && static_cast<uint8_t>(bytes[at]) < 0x80) ++at;
  return at;
}

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view bytes) {
  for (size_t at = skip_ascii(bytes, 0); at < bytes.size(); at = skip_ascii(bytes, at)) {
    const Sequence sequence = sequence_at(bytes, at);
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    out += sequence.valid ? bytes.substr(at, sequence.length) : kReplacement;
    at += sequence.length;
  }
  return out;
}

void require_utf8(const std::string& word) {
  if (!find_invalid_utf8(word)) return;
  throw usage_error("argument '" + replace_invalid_utf8(word) +
                    "' is not valid UTF-8; names and texts must be");
}

std::string show_controls(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  for (size_t at = 0; at < utf8.size(); ++at) {
    const auto byte = static_cast<uint8_t>(utf8[at]);
    const bool c1 =
        byte == 0xC2 && at + 1 < utf8.size() && static_cast<uint8_t>(utf8[at + 1]) < 0xA0;
    if (c1) {
      out += kReplacement;
      ++at;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      // The control pictures U+2400 to U+241F stand in the order of the controls; DELETE has
      // U+2421.
      out += "\xE2\x90";
      out += static_cast<char>(0x80 + (byte == 0x7F ? 0x21 : byte));
    } else {
      out += utf8[at];
    }
  }
  return out;
}

}  // namespace trainctl
