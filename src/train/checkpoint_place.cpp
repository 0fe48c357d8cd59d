#include "train/checkpoint_place.h"

#include <cmath>
#include <cstdio>
#include <ctime>

#include "train/open_checkpoint.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {

CheckpointPlace find_checkpoints(const std::string& source) {
  std::error_code ignored;
  if (!fs::is_directory(source, ignored)) {
    throw usage_error("'" + source + "' is no folder; " + kWhatHoldsCheckpoints);
  }
  if (is_step_folder(source)) {
    const fs::path step =
        fs::path(source).filename().empty() ? fs::path(source).parent_path() : fs::path(source);
    return {step.parent_path(), step};
  }
  const fs::path inside = fs::path(source) / "checkpoints";
  return {fs::is_directory(inside, ignored) ? inside : fs::path(source), std::nullopt};
}

std::vector<StoredCheckpoint> look_at(const CheckpointPlace& place) {
  if (place.step) return {look_at_checkpoint(*place.step)};
  return look_at_checkpoints(place.checkpoints);
}

StoredCheckpoint open_stored(const std::string& source, bool verify) {
  const CheckpointPlace place = find_checkpoints(source);
  std::vector<StoredCheckpoint> found = look_at(place);
  for (; !found.empty(); found.pop_back()) {
    StoredCheckpoint& newest = found.back();
    if (verify) verify_stored_checkpoint(&newest);
    if (newest.whole()) return std::move(newest);
    const std::string what = newest.path.string() + ": " + damage_text(newest);
    if (place.step) throw checkpoint_error(what + "; use another step-N beside it");
    log_warning("checkpoint passed over: " + what);
  }
  throw checkpoint_error("'" + source + "' holds no complete checkpoint; " + kWhatHoldsCheckpoints);
}

std::string damage_text(const StoredCheckpoint& checkpoint) {
  if (checkpoint.whole()) return "";
  const size_t more = checkpoint.problems.size() - 1;
  return checkpoint.problems[0] + (more > 0 ? " (and " + std::to_string(more) + " more)" : "");
}

std::string age_text(int64_t modified) {
  const double seconds = std::difftime(std::time(nullptr), modified);
  if (seconds >= 2 * 86400) return std::to_string(static_cast<int64_t>(seconds / 86400)) + "d";
  return human_duration(std::max(seconds, 0.0));
}

std::string count_text(uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string short_number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trainctl
