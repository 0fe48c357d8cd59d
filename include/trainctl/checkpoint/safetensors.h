// Reader and writer of the safetensors format (docs/checkpoint-format.md). The header is untrusted
// input.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/manifest.h"
#include "trainctl/checkpoint/write_options.h"

namespace trainctl {

struct TensorEntry {
  std::string name;
  at::Tensor tensor;  // any device, any strides; written in row-major order
};

// Durable: written to a temporary name, fsynced, renamed; on failure the temporary file is removed
// and an older file of the name stays. Returns the size and XXH3 checksum. Tensors are streamed: at
// most one piece of a tensor is copied at a time. Throws checkpoint_error with path, errno's text
// and the cure.
WrittenFile write_safetensors(const fs::path& path, const std::vector<TensorEntry>& tensors,
                              const std::map<std::string, std::string>& metadata,
                              const WriteOptions& options = {});

// "F32", "BF16", …: what the format calls the tensor's type. Throws std::invalid_argument for types
// that it does not have.
std::string_view safetensors_type_name(const at::Tensor& tensor);

// Bytes that write_safetensors will need, but for the header.
uint64_t data_bytes(const std::vector<TensorEntry>& tensors);

enum class Verify { kChecksum, kSize };

// Reads the whole file and holds size and checksum against what they should be. Reads instead of
// mapping: an error of the device is then an error here, not the end of the process.
void verify_file(const fs::path& path, const WrittenFile& expected, Verify verify);

// Memory-mapped; tensors alias the mapping, which they keep alive. Throws checkpoint_error on
// anything that is not a well-formed file, without allocating what the header claims. The file must
// not be shortened while it is open. Copies share the mapping.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);
  // Also holds size and, with Verify::kChecksum, checksum against what they should be, before the
  // header is looked at.
  SafetensorsFile(const fs::path& path, const WrittenFile& expected,
                  Verify verify = Verify::kChecksum);

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const;
  // A view of read-only memory: writing to it ends the process, so copy (clone, copy_) before.
  // Throws checkpoint_error when there is no such tensor.
  at::Tensor tensor(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  const fs::path& path() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace trainctl
