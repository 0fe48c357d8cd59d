#include "checkpoint/stored_type.h"

#include <array>

namespace trainctl {
namespace {

struct StoredTypeRow {
  StoredType type;
  std::string_view name;
  uint64_t size;
};

constexpr std::array<StoredTypeRow, 16> kStoredTypes = {{
    {StoredType::kBool, "BOOL", 1},
    {StoredType::kU8, "U8", 1},
    {StoredType::kI8, "I8", 1},
    {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kF8E4M3, "F8_E4M3", 1},
    {StoredType::kF8E8M0, "F8_E8M0", 1},
    {StoredType::kI16, "I16", 2},
    {StoredType::kU16, "U16", 2},
    {StoredType::kF16, "F16", 2},
    {StoredType::kBF16, "BF16", 2},
    {StoredType::kI32, "I32", 4},
    {StoredType::kU32, "U32", 4},
    {StoredType::kF32, "F32", 4},
    {StoredType::kF64, "F64", 8},
    {StoredType::kI64, "I64", 8},
    {StoredType::kU64, "U64", 8},
}};

const StoredTypeRow& row_of(StoredType type) {
  return kStoredTypes[static_cast<size_t>(type)];  // rows stand in the enum's order
}

}  // namespace

std::string_view stored_type_name(StoredType type) { return row_of(type).name; }
uint64_t stored_type_size(StoredType type) { return row_of(type).size; }

std::optional<StoredType> stored_type_by_name(std::string_view name) {
  for (const StoredTypeRow& row : kStoredTypes) {
    if (row.name == name) {
      return row.type;
    }
  }
  return std::nullopt;
}

}  // namespace trainctl
