// manifest.json: what a checkpoint consists of, with sizes and checksums.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/safetensors.h"

namespace trainctl {

struct Manifest {
  int64_t step = 0;
  std::map<std::string, WrittenFile> files;  // by name inside the folder
};

inline constexpr int64_t kCheckpointFormat = 1;

std::string manifest_to_json(const Manifest& manifest);

// Throws checkpoint_error naming `path`, also for formats this program does not know.
Manifest parse_manifest(const std::string& json, const fs::path& path);

}  // namespace trainctl
