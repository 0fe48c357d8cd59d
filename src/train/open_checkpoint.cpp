#include "train/open_checkpoint.h"

namespace trainctl {

bool is_step_folder(const fs::path& path) {
  const std::string name =
      path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  std::error_code ignored;
  return name.starts_with("step-") || fs::exists(path / "manifest.json", ignored);
}

CheckpointCandidates candidates_in(const fs::path& checkpoints) {
  CheckpointCandidates candidates;
  candidates.checkpoints = checkpoints;
  const auto folders = checkpoint_folders(checkpoints);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    candidates.folders.push_back(folder->second);
  }
  return candidates;
}

CheckpointCandidates candidates_at(const std::string& path, ExitCode not_there) {
  std::error_code ignored;
  const std::string what = kWhatHoldsCheckpoints;
  if (!fs::is_directory(path, ignored))
    throw UserError(not_there, "'" + path + "' is no folder; " + what);
  if (is_step_folder(path)) return {{path}, fs::path(path).parent_path(), true, true};
  const fs::path inside = fs::path(path) / "checkpoints";
  CheckpointCandidates candidates =
      candidates_in(fs::is_directory(inside, ignored) ? inside : fs::path(path));
  candidates.asked = true;
  if (!candidates.folders.empty()) return candidates;
  throw checkpoint_error("'" + path + "' holds no complete checkpoint; " + what);
}

LoadedCheckpoint open_checkpoint(const std::string& path, ExitCode not_there) {
  const CheckpointCandidates candidates = candidates_at(path, not_there);
  if (candidates.named) return load_checkpoint(candidates.folders[0]);
  return *load_newest_checkpoint(candidates.checkpoints);  // there are some: found, or thrown
}

}  // namespace trainctl
