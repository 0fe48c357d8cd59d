// A file that is either wholly there under its name or not at all.
#pragma once

#include <cstddef>
#include <span>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/manifest.h"
#include "trainctl/checkpoint/write_options.h"

namespace trainctl {

// The cure for what usually ends a write, or nothing.
std::string write_error_cure(int error);

// Writes under a temporary name in the same folder, computing size and checksum on the way;
// commit() syncs, renames over `path` and syncs the folder. Without commit() the temporary file is
// removed and an older file of the name stays as it was. Placement::kDirect writes under the final
// name and leaves the folder to be synced by whoever renames that. Errors are checkpoint_error with
// path, errno's text and cure.
class DurableFile {
 public:
  explicit DurableFile(const fs::path& path, const WriteOptions& options = {});
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  WrittenFile commit();

 private:
  void begin_writeback();
  [[noreturn]] void fail(const char* what, int error) const;

  WriteOptions options_;
  fs::path path_, temporary_;
  int fd_ = -1;
  bool committed_ = false;
  uint64_t bytes_ = 0, handed_over_ = 0;
  Checksum checksum_;
};

// A small file, by the same rules.
WrittenFile write_text(const fs::path& path, const std::string& text, Placement placement);

}  // namespace trainctl
