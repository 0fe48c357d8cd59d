// A file mapped for reading.
#pragma once

#include <cstddef>
#include <span>

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

}  // namespace trainctl
