// Finding and naming checkpoints for the tools.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/checkpoint/checkpoint.h"
#include "trainctl/checkpoint/stored_checkpoint.h"

namespace trainctl {

struct CheckpointPlace {
  fs::path checkpoints;          // the folder with the step-N
  std::optional<fs::path> step;  // the one that was named
};

// Throws usage_error where there is no such folder.
CheckpointPlace find_checkpoints(const std::string& source);

// The step-N that was named, or all of the folder.
std::vector<StoredCheckpoint> look_at(const CheckpointPlace& place);

// The one that was named, else the newest that is whole, with a warning for each one passed over,
// as a resume does it. `verify` reads every byte. Throws checkpoint_error when there is none.
StoredCheckpoint open_stored(const std::string& source, bool verify);

// The first problem, and how many more there are.
std::string damage_text(const StoredCheckpoint& checkpoint);
std::string age_text(int64_t modified);
std::string count_text(uint64_t count, const std::string& word);  // "1 file", "2 files"
std::string short_number(double value);                           // six digits

// JSON has no infinity and no NaN.
nlohmann::ordered_json json_number(double value);
// A line end after it; what is not UTF-8 (a path may be anything) is replaced.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace trainctl
