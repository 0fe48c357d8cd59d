// The names inside `checkpoints/`, and how folders come and go there.
//
//   step-N                 a checkpoint; complete when it holds the marker
//   step-N.partial-TOKEN   being written, by all ranks of the run that drew this token
//   step-N.replaced-PID    was step-N until process PID put another in its place
//   step-N.removed-PID     being removed
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

inline constexpr std::string_view kCompleteMarker = "COMPLETE";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kStateFile = "state.json";

// 16 hexadecimal digits that no other process draws.
std::string random_token();

fs::path step_folder(const fs::path& checkpoints_dir, int64_t step);
fs::path partial_folder(const fs::path& checkpoints_dir, int64_t step, const std::string& token);

// Every folder that stands for a step, ascending, marked or not. One set aside by a replacement
// that was interrupted stands for its step.
std::vector<std::pair<int64_t, fs::path>> step_folders(const fs::path& checkpoints_dir);
bool has_marker(const fs::path& step_dir);

// Gives `partial` its final name. An older folder of that name is first exchanged or set aside,
// then removed; at every moment one of the two is found by step_folders().
void commit_folder(const fs::path& partial, const fs::path& final_name);

// Takes a checkpoint away: gone from the list at once, its files after that. A failure is a
// warning.
void remove_step(const fs::path& step_dir);
void remove_quietly(const fs::path& folder);  // likewise, in one go

// What earlier processes left half done: undoes or finishes it. The run's lock lets only one
// process write here, so nothing of the kind is still in use.
void sweep_leftovers(const fs::path& checkpoints_dir);

}  // namespace trainctl
