#include "trainctl/text/byte_tokenizer.h"

#include "trainctl/text/utf8.h"

namespace trainctl {

std::vector<int64_t> encode_bytes(std::string_view text) {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

std::string decode_bytes(std::span<const int64_t> ids) {
  std::string bytes;
  bytes.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id >= 0 && id < 256) {
      bytes += static_cast<char>(static_cast<uint8_t>(id));
    } else if (id == kEndOfText) {
      bytes += "<|endoftext|>";
    } else {
      bytes += '\xFF';  // never part of UTF-8, so it is replaced below
    }
  }
  return replace_invalid_utf8(bytes);
}

}  // namespace trainctl
