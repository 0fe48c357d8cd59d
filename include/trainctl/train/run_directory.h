// <output_dir>/<name>/: config.resolved.json, metrics.jsonl, model.safetensors, checkpoints/,
// logs/. One process at a time writes to it.
#pragma once

#include <memory>
#include <string>

#include "trainctl/base/files.h"
#include "trainctl/config/config.h"

namespace trainctl {

class RunDirectory {
 public:
  // Creates the folder, proves that it can be written, and takes its lock. Throws usage_error
  // naming the path when it cannot be written, is a file, or another live run holds it.
  // `start_fresh` moves what is there aside to <name>.old-N first.
  RunDirectory(const std::string& output_dir, const std::string& name, bool start_fresh);
  // Releases the lock. A folder made here in which no run began (no resolved config) goes again.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Where the run of a config has its folder, for ranks that hold none.
  static fs::path path_of(const Config& config);
  static fs::path checkpoints_of(const fs::path& path) { return path / "checkpoints"; }
  // The lock alone, for a tool that changes what is in the folder; held while the result lives.
  // Throws usage_error when a live run holds it.
  static std::shared_ptr<void> lock(const fs::path& run_dir);

  const fs::path& path() const { return path_; }
  fs::path checkpoints() const { return checkpoints_of(path_); }
  fs::path metrics() const { return path_ / "metrics.jsonl"; }
  fs::path resolved_config() const { return path_ / "config.resolved.json"; }
  fs::path weights() const { return path_ / "model.safetensors"; }
  fs::path logs() const { return path_ / "logs"; }

 private:
  class Lock;
  fs::path path_;
  fs::path made_;  // the outermost folder that was made for it; empty: it was there
  std::unique_ptr<Lock> lock_;
};

// Renames a file or folder to <name>.old-N, the first N that is free; returns the new name.
fs::path move_aside(const fs::path& path);

}  // namespace trainctl
