#include "trainctl/checkpoint/checkpoint.h"

#include <algorithm>
#include <limits>

#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/index_file.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/part.h"
#include "checkpoint/retention.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

[[noreturn]] void refuse_checkpoint(const fs::path& path, const std::string& reason) {
  throw checkpoint_error(path.string() + " " + reason);
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw checkpoint_error(folder.string() + ": cannot create the folder: " + error.message());
  }
}

void require_listed(const Manifest& manifest, const std::string& file, const fs::path& step_dir) {
  if (!manifest.files.contains(file)) {
    refuse_checkpoint(step_dir / kManifestFile, "does not list " + file);
  }
}

// Nothing is read that the manifest does not vouch for.
TensorFiles open_set(const fs::path& step_dir, const Manifest& manifest, const std::string& stem) {
  const std::string single = stem + ".safetensors", index = index_file_name(stem);
  if (manifest.files.contains(single)) return SafetensorsFile(step_dir / single);
  if (!manifest.files.contains(index)) require_listed(manifest, single, step_dir);
  TensorFiles set = TensorFiles::open(step_dir, stem);
  for (const SafetensorsFile& file : set.files()) {
    require_listed(manifest, file.path().filename().string(), step_dir);
  }
  return set;
}

void verify_files(const fs::path& step_dir, const Manifest& manifest, const VerifyShare& share) {
  constexpr uint64_t kSmall = 1 << 20;  // read by everybody: state, indices
  int64_t number = 0;
  for (const auto& [name, written] : manifest.files) {
    const bool mine = written.bytes <= kSmall || number++ % share.ranks == share.rank;
    verify_file(step_dir / name, written, mine ? Verify::kChecksum : Verify::kSize);
  }
}

}  // namespace

fs::path save_checkpoint(const fs::path& checkpoints_dir, const CheckpointContent& content,
                         int64_t keep_latest) {
  create_folder(checkpoints_dir);
  sweep_leftovers(checkpoints_dir);
  const ShardPlan plan = plan_shards(tensor_sets(content), 1, std::numeric_limits<uint64_t>::max());
  require_space(checkpoints_dir, content.step, plan.bytes + content.state_json.size());
  const fs::path partial = partial_folder(checkpoints_dir, content.step, random_token());
  fs::path saved;
  try {
    create_folder(partial);
    CommitRequest request;
    request.checkpoints = checkpoints_dir;
    request.partial = partial;
    request.plan = &plan;
    request.files = write_part(partial, plan, 0, owned_tensors(content, plan, 0), nullptr);
    request.step = content.step;
    request.state_json = content.state_json;
    request.validation_loss = content.validation_loss;
    saved = commit_checkpoint(request);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove_all(partial, ignored);
    throw;
  }
  apply_retention(checkpoints_dir, content.step, "", {keep_latest, 0, 0});
  return saved;
}

std::vector<std::pair<int64_t, fs::path>> checkpoint_folders(const fs::path& checkpoints_dir) {
  return step_folders(checkpoints_dir);
}

std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& checkpoints_dir) {
  auto folders = step_folders(checkpoints_dir);
  std::erase_if(folders, [](const auto& folder) { return !has_marker(folder.second); });
  return folders;
}

LoadedCheckpoint load_checkpoint(const fs::path& step_dir, const VerifyShare& share) {
  std::error_code ignored;
  if (!fs::is_directory(step_dir, ignored)) {
    refuse_checkpoint(step_dir, "is not a checkpoint folder: there is no such folder");
  }
  if (!has_marker(step_dir)) {
    refuse_checkpoint(
        step_dir,
        "is not a complete checkpoint: the marker COMPLETE is missing (its writing or "
        "copying was interrupted); use another step-N beside it");
  }
  LoadedCheckpoint loaded;
  loaded.path = step_dir;
  loaded.manifest = read_manifest(step_dir);
  loaded.step = loaded.manifest.step;
  require_listed(loaded.manifest, std::string(kStateFile), step_dir);
  verify_files(step_dir, loaded.manifest, share);
  loaded.model = open_set(step_dir, loaded.manifest, kModelStem);
  loaded.optimizer = open_set(step_dir, loaded.manifest, kOptimizerStem);
  loaded.state_json = read_small_file(step_dir / kStateFile);
  return loaded;
}

void require_own_step(const LoadedCheckpoint& loaded) {
  const std::string name = loaded.path.filename().string();
  const std::string own = step_folder("", loaded.step).string();
  if (name == own || name.starts_with(own + ".")) return;
  refuse_checkpoint(loaded.path,
                    "holds step " + std::to_string(loaded.step) + ", not the one of its name");
}

UserError no_good_checkpoint(const fs::path& checkpoints_dir, size_t count) {
  return checkpoint_error(checkpoints_dir.string() + " holds " + std::to_string(count) +
                          " checkpoint(s), but none of them is complete and undamaged (see the "
                          "warnings); to begin anew, run with --resume never");
}

std::optional<LoadedCheckpoint> load_newest_checkpoint(const fs::path& checkpoints_dir) {
  const auto folders = step_folders(checkpoints_dir);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      LoadedCheckpoint loaded = load_checkpoint(folder->second);
      require_own_step(loaded);
      return loaded;
    } catch (const UserError& error) {
      log_warning("checkpoint passed over: " + std::string(error.what()));
    }
  }
  if (folders.empty()) return std::nullopt;
  throw no_good_checkpoint(checkpoints_dir, folders.size());
}

void sweep_checkpoints(const fs::path& checkpoints_dir) { sweep_leftovers(checkpoints_dir); }

}  // namespace trainctl
