// Files as a reader of checkpoints opens them: mapped, or read through once for its checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);  // throws checkpoint_error
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

struct FileDigest {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;  // 0 unless asked for
};

// Size, and checksum where `read` says so. Throws checkpoint_error.
FileDigest digest_file(const fs::path& path, bool read);

// The text of a small file. Throws checkpoint_error.
std::string read_small_file(const fs::path& path);

}  // namespace trainctl
