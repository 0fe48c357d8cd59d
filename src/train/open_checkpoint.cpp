#include "train/open_checkpoint.h"

namespace trainctl {
namespace {

bool is_step_folder(const fs::path& path) {
  const std::string name =
      path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  std::error_code ignored;
  return name.starts_with("step-") || fs::exists(path / "manifest.json", ignored);
}

}  // namespace

LoadedCheckpoint open_checkpoint(const std::string& path, ExitCode not_there) {
  std::error_code ignored;
  const char* what =
      "give a run directory (runs/NAME) or one of its checkpoints (runs/NAME/checkpoints/step-N)";
  if (!fs::is_directory(path, ignored))
    throw UserError(not_there, "'" + path + "' is no folder; " + what);
  if (is_step_folder(path)) return load_checkpoint(path);
  const fs::path inside = fs::path(path) / "checkpoints";
  const fs::path checkpoints = fs::is_directory(inside, ignored) ? inside : fs::path(path);
  if (auto newest = load_newest_checkpoint(checkpoints)) return std::move(*newest);
  throw checkpoint_error("'" + path + "' holds no complete checkpoint; " + what);
}

}  // namespace trainctl
