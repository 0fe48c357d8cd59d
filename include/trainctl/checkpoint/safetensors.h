// Reader and writer of the safetensors format (docs/checkpoint-format.md). The header is untrusted
// input.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

struct TensorEntry {
  std::string name;
  at::Tensor tensor;  // any device, any strides; written in row-major order
};

struct WrittenFile {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
};

// Durable: written to a temporary name, fsynced, renamed; on failure the temporary file is removed
// and an older file of the name stays. Returns the size and XXH3 checksum. Tensors are streamed: at
// most one piece of a tensor is copied at a time. Throws checkpoint_error with path, errno's text
// and the cure.
WrittenFile write_safetensors(const fs::path& path, const std::vector<TensorEntry>& tensors,
                              const std::map<std::string, std::string>& metadata);

// Bytes that write_safetensors will need, but for the header.
uint64_t data_bytes(const std::vector<TensorEntry>& tensors);

// Memory-mapped; tensors alias the mapping, which they keep alive. Throws checkpoint_error on
// anything that is not a well-formed file, without allocating what the header claims. The file must
// not be shortened while it is open.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);
  // Also holds size and checksum against what they should be, before the header is looked at.
  SafetensorsFile(const fs::path& path, const WrittenFile& expected);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const;
  // A view of read-only memory: writing to it ends the process, so copy (clone, copy_) before.
  // Throws checkpoint_error when there is no such tensor.
  at::Tensor tensor(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  const fs::path& path() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace trainctl
