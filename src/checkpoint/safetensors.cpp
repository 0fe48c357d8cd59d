#include "trainctl/checkpoint/safetensors.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "checkpoint/durable_file.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_header_sax.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

struct ScalarTypeRow {
  StoredType stored;
  at::ScalarType scalar;
};

constexpr ScalarTypeRow kScalarTypes[] = {
    {StoredType::kBool, at::kBool},
    {StoredType::kU8, at::kByte},
    {StoredType::kI8, at::kChar},
    {StoredType::kF8E5M2, at::kFloat8_e5m2},
    {StoredType::kF8E4M3, at::kFloat8_e4m3fn},
    {StoredType::kF8E8M0, at::kFloat8_e8m0fnu},
    {StoredType::kI16, at::kShort},
    {StoredType::kU16, at::kUInt16},
    {StoredType::kF16, at::kHalf},
    {StoredType::kBF16, at::kBFloat16},
    {StoredType::kI32, at::kInt},
    {StoredType::kU32, at::kUInt32},
    {StoredType::kF32, at::kFloat},
    {StoredType::kF64, at::kDouble},
    {StoredType::kI64, at::kLong},
    {StoredType::kU64, at::kUInt64},
};

at::ScalarType scalar_type_of(StoredType type) {
  return std::find_if(std::begin(kScalarTypes), std::end(kScalarTypes),
                      [&](const ScalarTypeRow& row) { return row.stored == type; })
      ->scalar;
}

StoredType stored_type_of(const TensorEntry& entry) {
  const auto* row =
      std::find_if(std::begin(kScalarTypes), std::end(kScalarTypes),
                   [&](const ScalarTypeRow& r) { return r.scalar == entry.tensor.scalar_type(); });
  if (row == std::end(kScalarTypes) || entry.tensor.layout() != at::kStrided) {
    throw std::invalid_argument("safetensors cannot hold tensor " + entry.name + " of type " +
                                std::string(at::toString(entry.tensor.scalar_type())));
  }
  return row->stored;
}

// Largest element first, then by name, as the reference implementation does: everything is aligned.
std::vector<TensorEntry> in_file_order(std::vector<TensorEntry> entries) {
  std::set<std::string> names;
  for (const TensorEntry& entry : entries) {
    if (entry.name == kMetadataKey || !names.insert(entry.name).second) {
      throw std::invalid_argument("tensor name given twice, or reserved: " + entry.name);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    const StoredType left = stored_type_of(a), right = stored_type_of(b);
    return left != right ? left > right : a.name < b.name;
  });
  return entries;
}

// Row-major bytes of a tensor on any device with any strides, copying at most kPiece at a time.
void write_tensor(DurableFile& file, const at::Tensor& tensor) {
  constexpr int64_t kPiece = int64_t{64} << 20;
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (bytes == 0) {
    return;
  }
  const bool direct = tensor.is_cpu() && tensor.is_contiguous();
  if (direct || bytes <= kPiece || tensor.dim() == 0) {
    const at::Tensor host = tensor.cpu().contiguous();
    file.write({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
    return;
  }
  const int64_t rows = tensor.size(0);
  const int64_t step = std::max<int64_t>(1, kPiece / (bytes / rows));
  for (int64_t row = 0; row < rows; row += step) {
    if (step == 1) {
      write_tensor(file, tensor.select(0, row));
    } else {
      write_tensor(file, tensor.narrow(0, row, std::min(step, rows - row)));
    }
  }
}

UserError damaged(const fs::path& path, const std::string& reason) {
  return checkpoint_error(path.string() + " " + reason +
                          ". The file is damaged: copy it again or use another one");
}

}  // namespace

std::string_view safetensors_type_name(const at::Tensor& tensor) {
  return stored_type_name(stored_type_of({"", tensor}));
}

void verify_file(const fs::path& path, const WrittenFile& expected, Verify verify) {
  const FileDigest found = digest_file(path, verify == Verify::kChecksum);
  if (found.bytes != expected.bytes) {
    throw damaged(path, "has " + std::to_string(found.bytes) + " bytes instead of " +
                            std::to_string(expected.bytes));
  }
  if (verify == Verify::kChecksum && found.xxh3 != expected.xxh3) {
    throw damaged(path, "does not have the checksum it was written with");
  }
}

uint64_t data_bytes(const std::vector<TensorEntry>& tensors) {
  uint64_t total = 0;
  for (const TensorEntry& entry : tensors) {
    total += entry.tensor.nbytes();
  }
  return total;
}

WrittenFile write_safetensors(const fs::path& path, const std::vector<TensorEntry>& tensors,
                              const std::map<std::string, std::string>& metadata,
                              const WriteOptions& options) {
  const std::vector<TensorEntry> entries = in_file_order(tensors);
  std::vector<std::pair<std::string, StoredTensor>> stored;
  uint64_t offset = 0;
  for (const TensorEntry& entry : entries) {
    const uint64_t end = offset + entry.tensor.nbytes();
    stored.emplace_back(
        entry.name, StoredTensor{stored_type_of(entry), entry.tensor.sizes().vec(), offset, end});
    offset = end;
  }
  std::string header;
  try {
    header = format_safetensors_header(stored, metadata);
  } catch (const HeaderError& error) {
    throw checkpoint_error(path.string() + ": cannot write the file: " + error.what());
  }
  DurableFile file(path, options);
  file.write(std::as_bytes(std::span(header)));
  for (const TensorEntry& entry : entries) {
    write_tensor(file, entry.tensor.detach());
  }
  return file.commit();
}

struct SafetensorsFile::Impl {
  explicit Impl(const fs::path& file_path)
      : path(file_path), mapping(std::make_shared<MappedFile>(file_path)) {
    try {
      header = parse_safetensors_header(mapping->bytes());
    } catch (const HeaderError& error) {
      throw damaged(path, std::string("is not a well-formed safetensors file: ") + error.what());
    }
  }

  fs::path path;
  std::shared_ptr<MappedFile> mapping;
  SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(const fs::path& path) : impl_(std::make_shared<Impl>(path)) {}

SafetensorsFile::SafetensorsFile(const fs::path& path, const WrittenFile& expected, Verify verify) {
  verify_file(path, expected, verify);
  impl_ = std::make_shared<Impl>(path);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(impl_->header.tensors.size());
  for (const auto& entry : impl_->header.tensors) {
    names.push_back(entry.first);
  }
  return names;
}

bool SafetensorsFile::contains(const std::string& name) const {
  return impl_->header.tensors.contains(name);
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = impl_->header.tensors.find(name);
  if (found == impl_->header.tensors.end()) {
    const std::optional<std::string> near = nearest(name, names());
    throw checkpoint_error(impl_->path.string() + " holds no tensor '" + name + "'" +
                           (near ? "; the nearest name is " + printable_name(*near) : ""));
  }
  const StoredTensor& stored = found->second;
  const auto options = at::TensorOptions().dtype(scalar_type_of(stored.type));
  if (stored.begin == stored.end) {
    return at::empty(stored.shape, options);
  }
  const std::byte* data = impl_->mapping->bytes().data() + impl_->header.data_start + stored.begin;
  // ATen's kernels expect elements aligned to their size; files of other writers may not be.
  if (reinterpret_cast<uintptr_t>(data) % stored_type_size(stored.type) != 0) {
    at::Tensor copy = at::empty(stored.shape, options);
    std::copy_n(data, stored.end - stored.begin, static_cast<std::byte*>(copy.mutable_data_ptr()));
    return copy;
  }
  return at::from_blob(
      const_cast<std::byte*>(data), stored.shape, [mapping = impl_->mapping](void*) {}, options);
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header.metadata;
}

const fs::path& SafetensorsFile::path() const { return impl_->path; }

}  // namespace trainctl
