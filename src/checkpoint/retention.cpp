#include "checkpoint/retention.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "checkpoint/folder.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

// Once per folder and process, not at every save.
bool first_mention(const fs::path& path) {
  static std::mutex mutex;
  static std::set<fs::path> mentioned;
  const std::lock_guard guard(mutex);
  return mentioned.insert(path).second;
}

void mention_later_one(const fs::path& path, int64_t saved_step) {
  if (!first_mention(path)) return;
  log_warning(path.string() + " is of a later step than the checkpoint just saved (step " +
              std::to_string(saved_step) +
              "): it belongs to another run and is neither counted nor removed; a resume would "
              "take it for the newest, so move it away");
}

}  // namespace

std::vector<int64_t> steps_to_remove(std::vector<KeptCandidate> candidates,
                                     const Retention& retention) {
  std::set<int64_t> kept;
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  const auto latest = static_cast<size_t>(std::max<int64_t>(retention.keep_latest, 1));
  for (size_t i = 0; i < std::min(latest, candidates.size()); ++i) kept.insert(candidates[i].step);

  std::vector<KeptCandidate> measured;
  for (const KeptCandidate& candidate : candidates) {
    if (retention.keep_every > 0 && candidate.step % retention.keep_every == 0) {
      kept.insert(candidate.step);
    }
    if (candidate.validation_loss) measured.push_back(candidate);
  }
  std::sort(measured.begin(), measured.end(), [](const auto& a, const auto& b) {
    return std::pair(*a.validation_loss, a.step) < std::pair(*b.validation_loss, b.step);
  });
  const auto best = static_cast<size_t>(std::max<int64_t>(retention.keep_best, 0));
  for (size_t i = 0; i < std::min(best, measured.size()); ++i) kept.insert(measured[i].step);

  std::vector<int64_t> removed;
  for (const KeptCandidate& candidate : candidates) {
    if (!kept.contains(candidate.step)) removed.push_back(candidate.step);
  }
  std::reverse(removed.begin(), removed.end());
  return removed;
}

void apply_retention(const fs::path& checkpoints_dir, int64_t saved_step, const std::string& run,
                     const Retention& retention) {
  std::vector<KeptCandidate> own;
  for (const auto& [step, path] : list_checkpoints(checkpoints_dir)) {
    if (step > saved_step) {
      mention_later_one(path, saved_step);
      continue;
    }
    try {
      const Manifest manifest = read_manifest(path);
      // Format 1 did not say whose it is; such a one was written here before an update.
      if (manifest.run.empty() || manifest.run == run)
        own.push_back({step, manifest.validation_loss});
    } catch (const UserError& error) {  // damaged: of no use, but not ours to judge
      if (first_mention(path))
        log_warning("not counted among the checkpoints kept: " + std::string(error.what()));
    }
  }
  for (const int64_t step : steps_to_remove(own, retention)) {
    remove_step(step_folder(checkpoints_dir, step));
  }
}

}  // namespace trainctl
