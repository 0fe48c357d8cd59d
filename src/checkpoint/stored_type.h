// Element types of the safetensors format.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainctl {

// In the order the reference implementation sorts by: tensors of a later type come first in the
// file, so that each one is aligned to its element. The order is part of the format and frozen.
enum class StoredType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};

std::string_view stored_type_name(StoredType type);
uint64_t stored_type_size(StoredType type);  // bytes of one element
std::optional<StoredType> stored_type_by_name(std::string_view name);

}  // namespace trainctl
