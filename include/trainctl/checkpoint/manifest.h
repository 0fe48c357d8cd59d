// manifest.json: what a checkpoint consists of, with sizes and checksums, and whose it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainctl/base/files.h"

namespace trainctl {

struct WrittenFile {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
};

struct Manifest {
  int64_t format = 0;  // of the file that was read
  int64_t step = 0;
  std::string run;                           // the run that wrote it; empty in format 1
  std::optional<double> validation_loss;     // of a validation at this very step
  std::map<std::string, WrittenFile> files;  // by name inside the folder

  uint64_t bytes() const;  // of all files
};

// What is written; formats from kOldestCheckpointFormat on are read.
inline constexpr int64_t kCheckpointFormat = 2, kOldestCheckpointFormat = 1;

std::string manifest_to_json(const Manifest& manifest);

// Throws checkpoint_error naming `path`, also for formats this program does not know.
Manifest parse_manifest(const std::string& json, const fs::path& path);

// The manifest of a checkpoint, held against the marker's checksum; no other file is looked at.
// Throws checkpoint_error.
Manifest read_manifest(const fs::path& step_dir);

}  // namespace trainctl
