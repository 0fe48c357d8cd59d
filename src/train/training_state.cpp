#include "trainctl/train/training_state.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trainctl/base/error.h"
#include "trainctl/base/host.h"
#include "trainctl/base/version.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStateFormat = 1;

// JSON has no infinity: a loss not known yet is null.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json optional_number(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : Json(nullptr);
}

std::optional<double> read_optional(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(json.get<double>());
}

void compare(const Json& saved, const Json& now, const std::string& path,
             std::vector<std::string>& out) {
  if (saved == now) return;
  if (!saved.is_object() || !now.is_object()) {
    out.push_back(path + ": " + saved.dump() + " → " + now.dump());
    return;
  }
  for (const auto& [key, value] : now.items()) {
    const std::string key_path = path.empty() ? key : path + "." + key;
    const auto it = saved.find(key);
    compare(it == saved.end() ? Json(nullptr) : *it, value, key_path, out);
  }
}

// What a difference changes, where its name does not say it (docs/resume.md).
struct Meaning {
  std::string_view key, text;
};

constexpr Meaning kMeanings[] = {
    {"run.seed",
     "other dropout masks from here on, and another order of the samples: in this epoch some come "
     "again and others do not come"},
    {"data.shuffle",
     "another order of the samples: in this epoch some come again and others do not come"},
    {"training.global_batch_size",
     "the schedule counts steps, each of which sees another number of samples from here on"},
    {"training.micro_batch_size", "equal to rounding at the same global batch"},
    {"training.gradient_accumulation_steps", "equal to rounding at the same global batch"},
    {"precision.dtype", "computed in another precision from here on"},
    {"precision.float32_matmul_precision", "matrix products are rounded otherwise from here on"},
    {"training.max_steps", "the schedule now ends at another step"},
    {"training.max_tokens", "the schedule now ends at another step"},
    {"training.epochs", "the schedule now ends at another step"},
    {"training.loss", "equal to rounding"},
    {"optimizer.type", "its state must fit, or the run is refused"},
    {"backend.deterministic", "bitwise repetition needs it from the first step on"},
};

std::string meaning_of(const std::string& change) {
  const std::string_view key = std::string_view(change).substr(0, change.find(": "));
  for (const Meaning& meaning : kMeanings) {
    if (meaning.key == key) return " (" + std::string(meaning.text) + ")";
  }
  return "";
}

}  // namespace

std::string kernel_choices(const std::string& device) {
  return device + ": " + cpu_model_name() + ", " + at::get_cpu_capability();
}

std::string state_to_json(const TrainingState& state, const Config& config) {
  Json json;
  json["format"] = kStateFormat;
  json["trainctl_version"] = kVersion;
  json["build"] = kBuildId;
  json["libtorch_version"] = std::to_string(TORCH_VERSION_MAJOR) + "." +
                             std::to_string(TORCH_VERSION_MINOR) + "." +
                             std::to_string(TORCH_VERSION_PATCH);
  json["step"] = state.step;
  json["tokens"] = state.tokens;
  json["samples"] = state.samples;
  json["data_position"] = {{"epoch", state.position.epoch}, {"index", state.position.index}};
  json["seconds"] = state.seconds;
  json["nonfinite_run"] = state.nonfinite_run;
  json["grad_scaler"] = {{"scale", state.scaler.scale},
                         {"growth_tracker", state.scaler.growth_tracker}};
  json["best_validation_loss"] = finite_or_null(state.best_validation_loss);
  json["lowest_validation_loss"] = finite_or_null(state.lowest_validation_loss);
  json["validations_without_improvement"] = state.validations_without_improvement;
  json["validation_pending"] = state.validation_pending;
  json["last_loss"] = optional_number(state.last_loss);
  json["last_validation_loss"] = optional_number(state.last_validation_loss);
  json["dataset_fingerprint"] = state.dataset_fingerprint;
  json["threads"] = state.threads;
  json["ranks"] = state.ranks;
  json["kernels"] = state.kernels;
  json["config"] = Json::parse(config_to_json(config));
  return json.dump(2) + "\n";
}

SavedState state_from_json(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<int>() != kStateFormat) {
      throw checkpoint_error(where + ": state.json has format " + json.at("format").dump() +
                             ", this version reads " + std::to_string(kStateFormat) +
                             "; use the trainctl that wrote it");
    }
    SavedState saved;
    TrainingState& state = saved.state;
    state.step = json.at("step").get<int64_t>();
    state.tokens = json.at("tokens").get<int64_t>();
    state.position = {json.at("data_position").at("epoch").get<int64_t>(),
                      json.at("data_position").at("index").get<int64_t>()};
    state.seconds = json.at("seconds").get<double>();
    state.nonfinite_run = json.at("nonfinite_run").get<int64_t>();
    state.scaler = {json.at("grad_scaler").at("scale").get<double>(),
                    json.at("grad_scaler").at("growth_tracker").get<int64_t>()};
    if (const auto best = read_optional(json.at("best_validation_loss")))
      state.best_validation_loss = *best;
    state.validations_without_improvement =
        json.at("validations_without_improvement").get<int64_t>();
    state.validation_pending = json.value("validation_pending", false);
    state.last_loss = read_optional(json.at("last_loss"));
    state.last_validation_loss = read_optional(json.at("last_validation_loss"));
    state.dataset_fingerprint = json.at("dataset_fingerprint").get<std::string>();
    state.threads = json.at("threads").get<int64_t>();
    // Earlier versions did not write these.
    state.ranks = json.value("ranks", int64_t{1});
    state.samples = json.value("samples", int64_t{0});
    state.kernels = json.value("kernels", std::string());
    const auto lowest = json.find("lowest_validation_loss");
    if (lowest != json.end() && !lowest->is_null()) {
      state.lowest_validation_loss = lowest->get<double>();
    }
    saved.config_json = json.at("config").dump();
    if (state.step < 0 || state.tokens < 0 || state.position.epoch < 0 ||
        state.position.index < 0) {
      throw checkpoint_error(where + ": state.json holds a negative step or position");
    }
    return saved;
  } catch (const Json::exception& error) {
    throw checkpoint_error(where + ": state.json cannot be read: " + error.what());
  }
}

std::vector<std::string> config_differences(const std::string& saved_config_json, const Config& now,
                                            const std::string& where) {
  const Json saved = Json::parse(saved_config_json), current = Json::parse(config_to_json(now));
  std::vector<std::string> model_changes, changes;
  compare(saved.value("model", Json::object()), current.at("model"), "model", model_changes);
  if (!model_changes.empty()) {
    std::string list;
    for (const std::string& change : model_changes) list += "\n  " + change;
    throw checkpoint_error(
        "checkpoint '" + where + "' is of another model (checkpoint → config):" + list +
        "\nput the model section back, choose another run.name, or start anew with --resume never");
  }
  compare(saved, current, "", changes);
  for (std::string& change : changes) change += meaning_of(change);
  return changes;
}

}  // namespace trainctl
