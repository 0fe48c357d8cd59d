// Files as the rest of the program needs them: whole-file reads, atomic durable writes, paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainctl/base/error.h"

namespace trainctl {

namespace fs = std::filesystem;

// Throws UserError(code) naming the path and errno's text.
std::string read_file(const fs::path& path, ExitCode code);
// The same for files of our own making, where a FIFO or device in their place must not be waited
// for.
std::string read_regular_file(const fs::path& path, ExitCode code);

// Writes to a temporary name in the same folder, fsyncs file and folder, renames over `path`. On
// failure the old file is untouched and the temporary one removed; throws UserError(code) with path
// and errno's text.
void write_file_atomic(const fs::path& path, std::string_view content, ExitCode code);
void fsync_directory(const fs::path& directory, ExitCode code);

// Expands a leading `~`, `$NAME`, `${NAME}` and `${CONFIG_DIR}`. An unset variable is a usage
// error.
std::string expand_path(const std::string& path, const fs::path& config_dir);

// Files matching a glob (`*`, `?`, `[…]`, and `**` across folders), sorted by name. A pattern
// without a wildcard is returned as it is, existing or not.
std::vector<fs::path> expand_glob(const std::string& pattern);

// XXH3 64-bit checksum.
uint64_t checksum(std::span<const std::byte> bytes);

class Checksum {  // streaming form of the same
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  void* state_;
};

std::string to_hex(uint64_t value);  // 16 digits

}  // namespace trainctl
