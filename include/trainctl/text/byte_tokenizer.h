// Byte-level tokens: ids 0 to 255 are bytes, 256 ends a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

inline constexpr int64_t kEndOfText = 256;
inline constexpr int64_t kByteVocabSize = 257;

std::vector<int64_t> encode_bytes(std::string_view text);

// Always valid UTF-8: a broken sequence, or an id outside the vocabulary (an untrained model whose
// vocabulary is padded may draw one), becomes U+FFFD; end of text becomes "<|endoftext|>".
std::string decode_bytes(std::span<const int64_t> ids);

}  // namespace trainctl
