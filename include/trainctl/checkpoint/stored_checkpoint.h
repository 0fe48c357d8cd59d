// A checkpoint as it lies on disk, whole or damaged: what the tools of `trainctl checkpoint` look
// at. Looking reads marker, manifest, sizes and headers; verifying reads every byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/checkpoint/manifest.h"

namespace trainctl {

struct StoredFile {
  std::string name;
  WrittenFile written;  // what the manifest says of it
  std::string problem;  // "has 10 bytes instead of 20"; empty: none was found
};

struct StoredCheckpoint {
  fs::path path;
  int64_t step = 0;  // of the folder's name, or where that has none, of the manifest
  std::vector<StoredFile> files;
  int64_t format_version = 0;
  std::string trainctl_version, run_id;
  std::optional<double> validation_loss;
  uint64_t bytes = 0;                  // of everything in the folder
  int64_t modified = 0;                // seconds since 1970, of the marker or else of the folder
  bool marked = false;                 // the marker is there
  std::vector<std::string> problems;   // "model.safetensors has 10 bytes instead of 20"
  std::vector<std::string> strangers;  // files that the manifest does not list
  bool whole() const { return problems.empty(); }
};

// Damage is told in the result; throws only where the folder itself cannot be read.
StoredCheckpoint look_at_checkpoint(const fs::path& step_dir);

// Also reads every file and compares checksums; adds to `problems`.
void verify_stored_checkpoint(StoredCheckpoint* checkpoint);

// The step folders in `checkpoints_dir`, ascending by step, as look_at_checkpoint finds them.
std::vector<StoredCheckpoint> look_at_checkpoints(const fs::path& checkpoints_dir);

// What interrupted saves left, and what was moved aside ("old").
struct Leftover {
  fs::path path;
  std::string kind;  // "partial", "removed", "replaced", "old"
  uint64_t bytes = 0;
};
std::vector<Leftover> list_leftovers(const fs::path& checkpoints_dir);

// For prune; whoever calls holds the run's lock. Removes what list_leftovers lists but "old".
void remove_leftovers(const fs::path& checkpoints_dir);
void remove_checkpoint(const fs::path& step_dir);

// A name out of a file, without anything that a terminal would obey.
std::string printable_tensor_name(std::string_view name);

}  // namespace trainctl
