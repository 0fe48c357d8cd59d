#include "checkpoint/commit.h"

#include "checkpoint/durable_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/index_file.h"

namespace trainctl {
namespace {

// Opening a file asks a network file system's server for its size, whatever a cache here says.
void require_shards(const CommitRequest& request) {
  for (const ShardedSet& set : request.plan->sets) {
    for (const Shard& shard : set.shards) {
      const auto written = request.files.find(shard.file);
      if (written == request.files.end()) {
        throw checkpoint_error((request.partial / shard.file).string() + ": rank " +
                               std::to_string(shard.owner) + " has not written the file");
      }
      verify_file(request.partial / shard.file, written->second, Verify::kSize);
    }
  }
}

}  // namespace

fs::path commit_checkpoint(const CommitRequest& request) {
  require_shards(request);
  Manifest manifest;
  manifest.step = request.step;
  manifest.run = request.run;
  manifest.validation_loss = request.validation_loss;
  manifest.files = request.files;
  const auto add = [&](const std::string& name, const std::string& text) {
    manifest.files[name] = write_text(request.partial / name, text, Placement::kDirect);
  };
  for (const ShardedSet& set : request.plan->sets) {
    if (set.shards.size() > 1) add(index_file_name(set.stem), index_to_json(set));
  }
  add(std::string(kStateFile), request.state_json);
  // The marker holds the manifest's checksum, so that nothing in the folder is unverified.
  const WrittenFile written =
      write_text(request.partial / kManifestFile, manifest_to_json(manifest), Placement::kDirect);
  write_text(request.partial / kCompleteMarker, to_hex(written.xxh3) + "\n", Placement::kDirect);
  // Everything below the name is on disk before the name is given.
  fsync_directory(request.partial, ExitCode::kCheckpoint);
  const fs::path final_name = step_folder(request.checkpoints, request.step);
  commit_folder(request.partial, final_name);
  return final_name;
}

}  // namespace trainctl
