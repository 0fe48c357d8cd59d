// trainctl checkpoint diff A B: exit code 0 when all that was compared is equal, 1 when not.
#include <algorithm>
#include <set>

#include "train/checkpoint_place.h"
#include "train/tensor_statistics.h"
#include "trainctl/base/strings.h"
#include "trainctl/report/table.h"
#include "trainctl/train/checkpoint_tools.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

struct ValueDifference {
  std::string key, left, right;
  bool counts = true;  // some, as the run's name, say nothing about the training
};

struct TensorVerdict {
  std::string part, name;
  std::string only_in;  // a path: the other does not have it
  std::string other;    // "F32 [2, 3]" and the like, where type or shape differ
  TensorDifference difference;
  bool equal = false;
};

struct Differences {
  std::string left, right;
  std::vector<ValueDifference> values;
  std::vector<TensorVerdict> tensors;
  bool equal() const {
    return std::none_of(values.begin(), values.end(), [](const auto& one) { return one.counts; }) &&
           std::all_of(tensors.begin(), tensors.end(), [](const auto& one) { return one.equal; });
  }
};

// What may differ between two runs that computed the same.
bool says_nothing(const std::string& key) {
  static const std::set<std::string> kNames = {"run.name", "run.output_dir", "state.seconds",
                                               "state.trainctl_version"};
  return kNames.contains(key);
}

void compare_values(const Json& left, const Json& right, const std::string& key,
                    std::vector<ValueDifference>* out) {
  if (left == right) return;
  if (!left.is_object() || !right.is_object()) {
    out->push_back({key, left.dump(), right.dump(), !says_nothing(key)});
    return;
  }
  const auto child = [&](const Json& parent, const std::string& name) {
    const auto found = parent.find(name);
    return found == parent.end() ? Json(nullptr) : *found;
  };
  std::set<std::string> names;
  for (const Json* object : {&left, &right}) {
    for (const auto& item : object->items()) names.insert(item.key());
  }
  for (const std::string& name : names) {
    compare_values(child(left, name), child(right, name), key.empty() ? name : key + "." + name,
                   out);
  }
}

Json read_state(const StoredCheckpoint& checkpoint) {
  const std::string text = read_regular_file(checkpoint.path / "state.json", ExitCode::kCheckpoint);
  Json state = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (state.is_object()) return state;
  throw checkpoint_error(checkpoint.path.string() + "/state.json is not a JSON object");
}

std::string kind_text(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return std::string(safetensors_type_name(tensor)) + " [" + join(sizes, ", ") + "]";
}

void compare_part(const StoredCheckpoint& left, const StoredCheckpoint& right,
                  const std::string& part, double rtol, std::vector<TensorVerdict>* out) {
  const TensorFiles a = TensorFiles::open(left.path, part);
  const TensorFiles b = TensorFiles::open(right.path, part);
  std::set<std::string> names;
  for (const TensorFiles* side : {&a, &b}) {
    for (const std::string& name : side->names()) names.insert(name);
  }
  for (const std::string& name : names) {
    TensorVerdict verdict;
    verdict.part = part;
    verdict.name = name;
    if (!a.contains(name) || !b.contains(name)) {
      verdict.only_in = (a.contains(name) ? left : right).path.string();
      out->push_back(verdict);
      continue;
    }
    const at::Tensor x = a.tensor(name), y = b.tensor(name);
    if (x.sizes() != y.sizes() || x.scalar_type() != y.scalar_type()) {
      verdict.other = kind_text(x) + " against " + kind_text(y);
    } else {
      verdict.difference = difference_of(x, y);
      const TensorDifference& d = verdict.difference;
      verdict.equal = d.bitwise || (rtol > 0 && d.nonfinite == 0 && d.relative <= rtol);
    }
    out->push_back(verdict);
  }
}

bool compares(const DiffCheckpoints& command, const std::string& what) {
  return command.only.empty() ||
         std::find(command.only.begin(), command.only.end(), what) != command.only.end();
}

Differences compare_checkpoints(const DiffCheckpoints& command) {
  const StoredCheckpoint left = open_stored(command.left, true);
  const StoredCheckpoint right = open_stored(command.right, true);
  Differences out{left.path.string(), right.path.string(), {}, {}};
  if (compares(command, "state") || compares(command, "config")) {
    Json a = read_state(left), b = read_state(right);
    if (compares(command, "config")) compare_values(a["config"], b["config"], "", &out.values);
    a.erase("config"), b.erase("config");
    if (compares(command, "state")) compare_values(a, b, "state", &out.values);
  }
  for (const std::string part : {kModelStem, kOptimizerStem}) {
    if (compares(command, part)) compare_part(left, right, part, command.rtol, &out.tensors);
  }
  return out;
}

std::string verdict_text(const TensorVerdict& one) {
  if (!one.only_in.empty()) return "only in " + one.only_in;
  if (!one.other.empty()) return one.other;
  std::string text = one.equal ? "within --rtol" : "differs";
  if (one.difference.nonfinite > 0) {
    text += ", " + std::to_string(one.difference.nonfinite) + " of them not finite";
  }
  return text;
}

std::string tensor_table(const std::vector<TensorVerdict>& tensors) {
  TextTable table({{"tensor"}, {"max abs", Align::kRight}, {"relative", Align::kRight}, {""}});
  for (const TensorVerdict& one : tensors) {
    if (one.difference.bitwise) continue;
    const bool compared = one.only_in.empty() && one.other.empty();
    table.add_row({one.part + " " + printable_tensor_name(one.name),
                   compared ? short_number(one.difference.max_abs) : "-",
                   compared ? short_number(one.difference.relative) : "-", verdict_text(one)});
  }
  return table.empty() ? "" : table.text();
}

std::string differences_text(const Differences& found) {
  std::string text = "A  " + found.left + "\nB  " + found.right + "\n";
  if (!found.values.empty()) {
    TextTable table({{"config and state"}, {"A"}, {"B"}, {""}});
    for (const ValueDifference& one : found.values) {
      table.add_row({one.key, one.left, one.right, one.counts ? "" : "(not counted)"});
    }
    text += table.text();
  }
  text += tensor_table(found.tensors);
  const auto same = std::count_if(found.tensors.begin(), found.tensors.end(),
                                  [](const auto& one) { return one.difference.bitwise; });
  const std::string of_all =
      std::to_string(same) + " of " + count_text(found.tensors.size(), "tensor") + " bitwise equal";
  return text + (found.equal() ? "equal: " : "different: ") + of_all + "\n";
}

std::string differences_json(const Differences& found) {
  Json out = {{"equal", found.equal()},
              {"left", found.left},
              {"right", found.right},
              {"values", Json::array()},
              {"tensors", Json::array()}};
  for (const ValueDifference& one : found.values) {
    out["values"].push_back({{"key", one.key},
                             {"left", Json::parse(one.left)},
                             {"right", Json::parse(one.right)},
                             {"counted", one.counts}});
  }
  for (const TensorVerdict& one : found.tensors) {
    Json line = {{"part", one.part}, {"name", one.name}, {"bitwise", one.difference.bitwise}};
    if (!one.only_in.empty()) {
      line["only_in"] = one.only_in;
    } else if (!one.other.empty()) {
      line["mismatch"] = one.other;
    } else {
      line["max_abs"] = json_number(one.difference.max_abs);
      line["relative"] = json_number(one.difference.relative);
      line["nonfinite"] = one.difference.nonfinite;
    }
    out["tensors"].push_back(std::move(line));
  }
  return json_text(out);
}

}  // namespace

ExitCode diff_checkpoints_command(const DiffCheckpoints& command, const RunHost& host) {
  const Differences found = compare_checkpoints(command);
  host.print(command.json ? differences_json(found) : differences_text(found));
  return found.equal() ? ExitCode::kOk : ExitCode::kTrainingFailed;  // 1, as diff(1) has it
}

}  // namespace trainctl
