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
  at::Tensor tensor;  // any device; written from CPU, contiguous
};

// Durable: written to a temporary name, fsynced, renamed. Returns the size and XXH3 checksum.
struct WrittenFile {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
};
WrittenFile write_safetensors(const fs::path& path, const std::vector<TensorEntry>& tensors,
                              const std::map<std::string, std::string>& metadata);

// Memory-mapped; tensors alias the mapping, which they keep alive. Throws checkpoint_error on
// anything that is not a well-formed file, without allocating what the header claims.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  at::Tensor tensor(const std::string& name) const;  // read-only view; copy before writing
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace trainctl
