#include "trainctl/checkpoint/checkpoint.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>

#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr const char* kManifestFile = "manifest.json";

WrittenFile written_text(const std::string& text) {
  return {text.size(), checksum(std::as_bytes(std::span(text)))};
}

// Better refused now than after minutes of writing; what another process takes meanwhile is still
// found by the write itself.
void require_space(const fs::path& folder, const CheckpointContent& content) {
  constexpr uint64_t kHeadersAndBlocks = 64 << 10;
  const uint64_t needed = data_bytes(content.model) + data_bytes(content.optimizer) +
                          content.state_json.size() + kHeadersAndBlocks;
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) {
    return;
  }
  const uint64_t available = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (available < needed) {
    throw checkpoint_error(
        folder.string() + ": the checkpoint of step " + std::to_string(content.step) + " needs " +
        human_bytes(needed) + ", but only " + human_bytes(available) +
        " are free: No space left on device; free some space, lower checkpoint.keep_latest, or set "
        "run.output_dir elsewhere");
  }
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw checkpoint_error(folder.string() + ": cannot create the folder: " + error.message());
  }
}

// Everything in place and synced, the marker last. It holds the manifest's checksum, so that
// nothing in the folder is unverified.
void write_content(const fs::path& folder, const CheckpointContent& content) {
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}};  // transformers asks for it
  Manifest manifest;
  manifest.step = content.step;
  manifest.files[kModelFile] = write_safetensors(folder / kModelFile, content.model, metadata);
  manifest.files[kOptimizerFile] =
      write_safetensors(folder / kOptimizerFile, content.optimizer, metadata);
  write_file_atomic(folder / kStateFile, content.state_json, ExitCode::kCheckpoint);
  manifest.files[kStateFile] = written_text(content.state_json);
  const std::string json = manifest_to_json(manifest);
  write_file_atomic(folder / kManifestFile, json, ExitCode::kCheckpoint);
  write_file_atomic(folder / kCompleteMarker, to_hex(written_text(json).xxh3) + "\n",
                    ExitCode::kCheckpoint);
}

// Steps are compared as numbers. A later step than the one just saved cannot be this run's: a run
// that went back to an earlier checkpoint, or another one, left it.
void remove_oldest(const fs::path& checkpoints_dir, int64_t saved_step, int64_t keep_latest) {
  static std::set<fs::path> warned;  // once per folder and process, not at every save
  std::vector<fs::path> own;
  for (const auto& [step, path] : list_checkpoints(checkpoints_dir)) {
    if (step <= saved_step) {
      own.push_back(path);
    } else if (warned.insert(path).second) {
      log_warning(path.string() + " is of a later step than the checkpoint just saved (step " +
                  std::to_string(saved_step) +
                  "): it belongs to another run and is neither counted nor removed; a resume would "
                  "take it for the newest, so move it away");
    }
  }
  const auto keep = static_cast<size_t>(std::max<int64_t>(keep_latest, 1));
  for (size_t i = 0; i + keep < own.size(); ++i) {
    remove_step(own[i]);
  }
}

[[noreturn]] void refuse_checkpoint(const fs::path& path, const std::string& reason) {
  throw checkpoint_error(path.string() + " " + reason);
}

std::string read_verified(const fs::path& path, const WrittenFile& expected) {
  std::string text = read_regular_file(path, ExitCode::kCheckpoint);
  const WrittenFile found = written_text(text);
  if (found.bytes != expected.bytes) {
    refuse_checkpoint(path, "has " + std::to_string(found.bytes) + " bytes instead of " +
                                std::to_string(expected.bytes));
  }
  if (found.xxh3 != expected.xxh3) {
    refuse_checkpoint(path, "does not have the checksum it was written with: it is damaged");
  }
  return text;
}

Manifest read_verified_manifest(const fs::path& step_dir) {
  const fs::path path = step_dir / kManifestFile;
  const std::string json = read_regular_file(path, ExitCode::kCheckpoint);
  const std::string marker = read_regular_file(step_dir / kCompleteMarker, ExitCode::kCheckpoint);
  if (marker != to_hex(written_text(json).xxh3) + "\n") {
    refuse_checkpoint(path, "does not have the checksum that COMPLETE gives: it is damaged");
  }
  Manifest manifest = parse_manifest(json, path);
  for (const char* file : {kModelFile, kOptimizerFile, kStateFile}) {
    if (!manifest.files.contains(file)) {
      refuse_checkpoint(path, std::string("does not list ") + file);
    }
  }
  return manifest;
}

}  // namespace

fs::path save_checkpoint(const fs::path& checkpoints_dir, const CheckpointContent& content,
                         int64_t keep_latest) {
  create_folder(checkpoints_dir);
  sweep_leftovers(checkpoints_dir);
  require_space(checkpoints_dir, content);
  const fs::path partial = partial_folder(checkpoints_dir, content.step);
  const fs::path final_name = step_folder(checkpoints_dir, content.step);
  try {
    create_folder(partial);
    write_content(partial, content);
    commit_folder(partial, final_name);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove_all(partial, ignored);
    throw;
  }
  remove_oldest(checkpoints_dir, content.step, keep_latest);
  return final_name;
}

std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& checkpoints_dir) {
  auto folders = step_folders(checkpoints_dir);
  std::erase_if(folders, [](const auto& folder) { return !has_marker(folder.second); });
  return folders;
}

LoadedCheckpoint load_checkpoint(const fs::path& step_dir) {
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
  const Manifest manifest = read_verified_manifest(step_dir);
  return {step_dir, manifest.step,
          SafetensorsFile(step_dir / kModelFile, manifest.files.at(kModelFile)),
          SafetensorsFile(step_dir / kOptimizerFile, manifest.files.at(kOptimizerFile)),
          read_verified(step_dir / kStateFile, manifest.files.at(kStateFile))};
}

std::optional<LoadedCheckpoint> load_newest_checkpoint(const fs::path& checkpoints_dir) {
  const auto folders = step_folders(checkpoints_dir);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      LoadedCheckpoint loaded = load_checkpoint(folder->second);
      if (loaded.step != folder->first) {
        refuse_checkpoint(folder->second, "holds step " + std::to_string(loaded.step) +
                                              ", not the one of its name");
      }
      return loaded;
    } catch (const UserError& error) {
      log_warning("checkpoint passed over: " + std::string(error.what()));
    }
  }
  if (folders.empty()) {
    return std::nullopt;
  }
  throw checkpoint_error(checkpoints_dir.string() + " holds " + std::to_string(folders.size()) +
                         " checkpoint(s), but none of them is complete and undamaged (see the "
                         "warnings); to begin anew, run with --resume never");
}

}  // namespace trainctl
