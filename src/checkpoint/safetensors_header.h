// The header of a safetensors file: parsed from untrusted bytes, and written. Free of torch, so
// that it can be built under AddressSanitizer and fuzzed by itself
// (tests/fuzz/safetensors_header_fuzz.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/stored_type.h"

namespace trainctl {

struct StoredTensor {
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // bytes, from the start of the file
};

// Why a file is not well-formed; whoever knows the file's name adds it.
class HeaderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Headers above this are refused, as the reference implementation does.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// `file` is the whole file. Checks everything a reader relies on: after it, every tensor's span
// lies inside the file, matches its shape and type, overlaps no other, and no byte of data is left
// out. Throws HeaderError; what it allocates is bounded by the header bytes that are really there.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file);

// Length, JSON and padding, for tensors that lie one after another in this order. Throws
// HeaderError for text that is not UTF-8, which JSON cannot hold.
std::string format_safetensors_header(
    const std::vector<std::pair<std::string, StoredTensor>>& tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace trainctl
