// trainctl checkpoint prune
#include <algorithm>

#include "train/checkpoint_place.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/report/table.h"
#include "trainctl/train/checkpoint_tools.h"
#include "trainctl/train/run_directory.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;

struct PruneRow {
  StoredCheckpoint checkpoint;
  bool goes = false;
  std::string why;
};

// What a resume would fall back to must be good before anything else goes: it is read wholly.
size_t newest_good(std::vector<StoredCheckpoint>* all, const fs::path& checkpoints) {
  for (size_t i = all->size(); i-- > 0;) {
    StoredCheckpoint& one = (*all)[i];
    if (one.whole()) verify_stored_checkpoint(&one);
    if (one.whole()) return i;
  }
  throw checkpoint_error(checkpoints.string() +
                         " holds no whole checkpoint, so nothing is removed: trainctl checkpoint "
                         "verify says what is damaged");
}

// Those that are damaged are no part of any count; they stay for a person to look at, unless they
// are older than --before.
std::vector<PruneRow> plan_pruning(std::vector<StoredCheckpoint> all, const fs::path& checkpoints,
                                   const PruneCheckpoints& rules) {
  const size_t newest = newest_good(&all, checkpoints);
  std::vector<PruneRow> rows;
  int64_t whole_ones = 0;  // counted from the newest
  for (size_t i = all.size(); i-- > 0;) {
    PruneRow row{std::move(all[i]), false, ""};
    const int64_t step = row.checkpoint.step;
    const bool whole = row.checkpoint.whole();
    whole_ones += whole ? 1 : 0;
    if (i == newest) {
      row.why = "the newest whole one";
    } else if (i > newest) {
      row.why = "later, but damaged: not touched";
    } else if (rules.before && step >= *rules.before) {
      row.why = "not before step " + std::to_string(*rules.before);
    } else if (whole && rules.keep_latest && whole_ones <= *rules.keep_latest) {
      row.why = "one of the latest " + std::to_string(*rules.keep_latest);
    } else if (whole && rules.keep_every && step % *rules.keep_every == 0) {
      row.why = "a multiple of " + std::to_string(*rules.keep_every);
    } else {
      row.goes = true;
      row.why = whole ? "" : "damaged";
    }
    rows.push_back(std::move(row));
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

// Only inside a run is there anybody to keep away.
std::shared_ptr<void> lock_run(const fs::path& checkpoints) {
  const fs::path whole = fs::absolute(checkpoints).lexically_normal();
  const fs::path folder = whole.filename().empty() ? whole.parent_path() : whole;
  if (folder.filename() != "checkpoints") return nullptr;
  return RunDirectory::lock(folder.parent_path());
}

std::string pruning_text(const std::vector<PruneRow>& rows, const std::vector<Leftover>& leftovers,
                         bool done) {
  TextTable table({{"step", TextTable::Align::kRight}, {"size", TextTable::Align::kRight}, {""}});
  uint64_t bytes = 0, count = 0;
  for (const PruneRow& row : rows) {
    const std::string reason = row.why.empty() ? "" : ": " + row.why;
    table.add_row({std::to_string(row.checkpoint.step), human_bytes(row.checkpoint.bytes),
                   (row.goes ? (done ? "removed" : "would go") : "stays") + reason});
    count += row.goes ? 1 : 0;
    bytes += row.goes ? row.checkpoint.bytes : 0;
  }
  std::string text = table.text();
  for (const Leftover& leftover : leftovers) {
    bytes += leftover.bytes;
    text += "  " + std::string(done ? "removed " : "would go: ") +
            leftover.path.filename().string() + "\n";
  }
  text += done ? "removed " : "would remove ";
  text += count_text(count, "checkpoint") +
          (leftovers.empty() ? "" : " and " + count_text(leftovers.size(), "leftover")) + ", " +
          human_bytes(bytes) + "\n";
  if (!done && count + leftovers.size() > 0)
    text += "nothing was removed yet: add --yes to do it\n";
  return text;
}

std::string pruning_json(const std::vector<PruneRow>& rows, const std::vector<Leftover>& leftovers,
                         bool done) {
  Json out = {{"removed", done}, {"checkpoints", Json::array()}, {"leftovers", Json::array()}};
  for (const PruneRow& row : rows) {
    out["checkpoints"].push_back({{"step", row.checkpoint.step},
                                  {"path", row.checkpoint.path.string()},
                                  {"bytes", row.checkpoint.bytes},
                                  {"remove", row.goes},
                                  {"why", row.why}});
  }
  for (const Leftover& one : leftovers) out["leftovers"].push_back(one.path.string());
  return json_text(out);
}

// A removal that fails has warned; the exit code must tell it too.
void remove_rows(const std::vector<PruneRow>& rows, const fs::path& checkpoints, bool leftovers) {
  std::vector<std::string> kept;
  std::error_code ignored;
  for (const PruneRow& row : rows) {
    if (!row.goes) continue;
    remove_checkpoint(row.checkpoint.path);
    if (fs::exists(row.checkpoint.path, ignored)) kept.push_back(row.checkpoint.path.string());
  }
  if (leftovers) remove_leftovers(checkpoints);
  if (!kept.empty()) {
    throw checkpoint_error("could not remove " + join(kept, ", ") +
                           "; see the warnings, and make the folder writable");
  }
}

}  // namespace

ExitCode prune_checkpoints_command(const PruneCheckpoints& command, const RunHost& host) {
  const CheckpointPlace place = find_checkpoints(command.source);
  if (place.step) {
    throw usage_error("'" + command.source +
                      "' is one checkpoint; prune takes a run directory (runs/NAME)");
  }
  const std::shared_ptr<void> lock = command.yes ? lock_run(place.checkpoints) : nullptr;
  std::vector<StoredCheckpoint> all = look_at_checkpoints(place.checkpoints);
  std::vector<PruneRow> rows;
  const bool has_rule = command.keep_latest || command.keep_every || command.before;
  if (has_rule && !all.empty()) rows = plan_pruning(std::move(all), place.checkpoints, command);
  std::vector<Leftover> leftovers;
  if (command.leftovers) leftovers = list_leftovers(place.checkpoints);
  std::erase_if(leftovers, [](const Leftover& one) { return one.kind == "old"; });
  if (command.yes) remove_rows(rows, place.checkpoints, command.leftovers);
  host.print(command.json ? pruning_json(rows, leftovers, command.yes)
                          : pruning_text(rows, leftovers, command.yes));
  return ExitCode::kOk;
}

}  // namespace trainctl
