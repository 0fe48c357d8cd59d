// trainctl checkpoint list, and checkpoint verify.
#include "train/checkpoint_place.h"
#include "trainctl/base/strings.h"
#include "trainctl/report/table.h"
#include "trainctl/train/checkpoint_tools.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

const char* state_name(const StoredCheckpoint& checkpoint) {
  if (checkpoint.whole()) return "complete";
  return checkpoint.marked ? "damaged" : "incomplete";
}

// The newest that is whole, as far as was looked; null: none.
const StoredCheckpoint* taken_by_resume(const std::vector<StoredCheckpoint>& all) {
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->whole()) return &*one;
  }
  return nullptr;
}

std::string state_text(const StoredCheckpoint& checkpoint, bool is_taken) {
  if (checkpoint.whole()) return is_taken ? "complete; a resume takes this one" : "complete";
  return checkpoint.marked ? "damaged: " + damage_text(checkpoint) : damage_text(checkpoint);
}

std::string leftover_text(const Leftover& leftover) {
  const std::string name =
      leftover.path.filename().string() + " (" + human_bytes(leftover.bytes) + ")";
  if (leftover.kind == "old") return "moved aside: " + name;
  return "left by an interrupted save: " + name + "; the next save of the run removes it";
}

Json checkpoint_json(const StoredCheckpoint& checkpoint, bool is_taken) {
  Json out = {{"step", checkpoint.step},
              {"path", checkpoint.path.string()},
              {"state", state_name(checkpoint)},
              {"bytes", checkpoint.bytes},
              {"modified", checkpoint.modified},
              {"validation_loss", nullptr},
              {"resume", is_taken},
              {"problems", checkpoint.problems}};
  if (checkpoint.validation_loss) out["validation_loss"] = json_number(*checkpoint.validation_loss);
  return out;
}

std::string list_json(const CheckpointPlace& place, const std::vector<StoredCheckpoint>& all) {
  const StoredCheckpoint* taken = taken_by_resume(all);
  Json out = {{"checkpoints_dir", place.checkpoints.string()},
              {"resume_step", taken != nullptr ? Json(taken->step) : Json(nullptr)},
              {"checkpoints", Json::array()},
              {"leftovers", Json::array()}};
  for (const StoredCheckpoint& one : all) {
    out["checkpoints"].push_back(checkpoint_json(one, &one == taken));
  }
  for (const Leftover& leftover : list_leftovers(place.checkpoints)) {
    out["leftovers"].push_back(
        {{"path", leftover.path.string()}, {"kind", leftover.kind}, {"bytes", leftover.bytes}});
  }
  return json_text(out);
}

std::string list_text(const CheckpointPlace& place, const std::vector<StoredCheckpoint>& all) {
  TextTable table({{"step", Align::kRight},
                   {"size", Align::kRight},
                   {"age", Align::kRight},
                   {"validation loss", Align::kRight},
                   {"state"}});
  const StoredCheckpoint* taken = place.step ? nullptr : taken_by_resume(all);
  uint64_t bytes = 0;
  for (const StoredCheckpoint& one : all) {
    bytes += one.bytes;
    table.add_row({std::to_string(one.step), human_bytes(one.bytes), age_text(one.modified),
                   one.validation_loss ? short_number(*one.validation_loss) : "-",
                   state_text(one, &one == taken)});
  }
  std::string text = place.checkpoints.string() + ": " + count_text(all.size(), "checkpoint") +
                     ", " + human_bytes(bytes) + "\n";
  if (!table.empty()) text += table.text();
  if (place.step) return text;
  for (const Leftover& leftover : list_leftovers(place.checkpoints)) {
    text += leftover_text(leftover) + "\n";
  }
  if (taken == nullptr && !all.empty()) {
    text += "none of them can be resumed from; trainctl checkpoint verify says more\n";
  }
  return text;
}

// Verified as far as needed: a problem found by looking is reason enough.
void verify_all(std::vector<StoredCheckpoint>* all) {
  for (StoredCheckpoint& one : *all) {
    if (one.marked) verify_stored_checkpoint(&one);
  }
}

std::string verify_text(const StoredCheckpoint& one) {
  const std::string where = one.path.string();
  std::string text;
  if (one.whole()) {
    text = "ok       " + where + ": " + count_text(one.files.size(), "file") + ", " +
           human_bytes(one.bytes) + "\n";
  }
  for (const std::string& problem : one.problems)
    text += "DAMAGED  " + where + ": " + problem + "\n";
  for (const std::string& name : one.strangers) {
    text += "note     " + where + "/" + name + " is not in the manifest\n";
  }
  return text;
}

Json verify_json(const StoredCheckpoint& one) {
  Json files = Json::array();
  for (const StoredFile& file : one.files) {
    files.push_back({{"file", file.name},
                     {"bytes", file.written.bytes},
                     {"xxh3", to_hex(file.written.xxh3)},
                     {"ok", file.problem.empty()}});
  }
  return {{"path", one.path.string()}, {"step", one.step},          {"ok", one.whole()},
          {"problems", one.problems},  {"unlisted", one.strangers}, {"files", files}};
}

}  // namespace

ExitCode list_checkpoints_command(const ListCheckpoints& command, const RunHost& host) {
  const CheckpointPlace place = find_checkpoints(command.source);
  std::vector<StoredCheckpoint> all = look_at(place);
  if (command.verify) verify_all(&all);
  host.print(command.json ? list_json(place, all) : list_text(place, all));
  return ExitCode::kOk;
}

ExitCode verify_checkpoints_command(const VerifyCheckpoints& command, const RunHost& host) {
  const CheckpointPlace place = find_checkpoints(command.source);
  std::vector<StoredCheckpoint> all = look_at(place);
  if (all.empty()) {
    throw checkpoint_error("'" + place.checkpoints.string() +
                           "' holds no checkpoint; give a run directory or one of its checkpoints");
  }
  if (command.newest) all.erase(all.begin(), all.end() - 1);
  size_t damaged = 0;
  std::string first;
  Json out = {{"ok", true}, {"checkpoints", Json::array()}};
  for (StoredCheckpoint& one : all) {  // told one by one: large ones take their time
    if (one.marked) verify_stored_checkpoint(&one);
    if (!one.whole() && damaged++ == 0) first = one.path.string() + ": " + damage_text(one);
    if (!command.json) host.print(verify_text(one));
    out["checkpoints"].push_back(verify_json(one));
  }
  out["ok"] = damaged == 0;
  if (command.json) host.print(json_text(out));
  if (damaged == 0) return ExitCode::kOk;
  throw checkpoint_error(std::to_string(damaged) + " of " + count_text(all.size(), "checkpoint") +
                         " damaged or incomplete: " + first +
                         (damaged > 1 ? "; …" : "; copy it again or use another one"));
}

}  // namespace trainctl
