#include "train/optimizer_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

struct KindName {
  ParamKind kind;
  const char* name;
};
constexpr std::array<KindName, 4> kKindNames = {{{ParamKind::kMatrix, "matrix"},
                                                 {ParamKind::kEmbedding, "embedding"},
                                                 {ParamKind::kNorm, "norm"},
                                                 {ParamKind::kBias, "bias"}}};

ParamKind kind_from_name(const std::string& name) {
  for (const KindName& row : kKindNames) {
    if (name == row.name) return row.kind;
  }
  throw usage_error("optimizer.no_decay: unknown kind \"" + name +
                    "\"; the kinds of parameters are matrix, embedding, norm and bias");
}

bool glob_matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string group_key(size_t index) { return "optimizer.groups[" + std::to_string(index) + "]"; }

// Enough names to see how they are made.
std::string some_names(const std::vector<NamedParameter>& parameters) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kShown, parameters.size()); ++i) {
    names.push_back(parameters[i].name);
  }
  if (parameters.size() > kShown) names.emplace_back("…");
  return join(names, ", ");
}

[[noreturn]] void refuse_group_without_effect(const OptimizerConfig& config, size_t index,
                                              const std::vector<NamedParameter>& parameters) {
  const std::string& pattern = config.groups[index].params;
  const std::string what = group_key(index) + ".params \"" + pattern + "\" ";
  const auto hit = std::find_if(parameters.begin(), parameters.end(), [&](const auto& parameter) {
    return glob_matches(pattern, parameter.name);
  });
  if (hit == parameters.end()) {
    throw usage_error(what + "matches no parameter; names are " + some_names(parameters));
  }
  throw usage_error(what + "matches only parameters that earlier groups took (e.g. " + hit->name +
                    "); the first match wins, so put the narrower pattern first");
}

// For each parameter the config group that takes it.
std::vector<std::optional<size_t>> match_groups(const OptimizerConfig& config,
                                                const std::vector<NamedParameter>& parameters) {
  std::vector<std::optional<size_t>> taken_by(parameters.size());
  for (size_t g = 0; g < config.groups.size(); ++g) {
    bool has_effect = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (taken_by[i] || !glob_matches(config.groups[g].params, parameters[i].name)) continue;
      taken_by[i] = g;
      has_effect = true;
    }
    if (!has_effect) refuse_group_without_effect(config, g, parameters);
  }
  return taken_by;
}

double rate_factor(const OptimizerConfig& config, size_t group) {
  const std::optional<double>& rate = config.groups[group].learning_rate;
  if (!rate) return 1;
  if (config.learning_rate > 0) return *rate / config.learning_rate;
  throw usage_error(group_key(group) +
                    ".learning_rate follows the schedule of optimizer.learning_rate, which is 0; "
                    "set that to a positive rate");
}

}  // namespace

std::vector<ParameterGroup> assign_parameter_groups(const OptimizerConfig& config,
                                                    const std::vector<NamedParameter>& parameters) {
  std::vector<ParamKind> no_decay;
  for (const std::string& name : config.no_decay) no_decay.push_back(kind_from_name(name));
  const std::vector<std::optional<size_t>> taken_by = match_groups(config, parameters);

  std::vector<ParameterGroup> groups;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool decays =
        std::find(no_decay.begin(), no_decay.end(), parameters[i].kind) == no_decay.end();
    double decay = decays ? config.weight_decay : 0;
    double factor = 1;
    if (taken_by[i]) {
      decay = config.groups[*taken_by[i]].weight_decay.value_or(decay);
      factor = rate_factor(config, *taken_by[i]);
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& g) {
      return g.weight_decay == decay && g.rate_factor == factor;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {decay, factor, {}, {}});
    group->indices.push_back(i);
    group->parameters.push_back(parameters[i]);
  }
  return groups;
}

std::string describe_group(const ParameterGroup& group) {
  int64_t elements = 0;
  for (const NamedParameter& parameter : group.parameters) elements += parameter.tensor.numel();
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "weight decay %g", group.weight_decay);
  std::string line = group.weight_decay == 0 ? "no weight decay" : text.data();
  if (group.rate_factor != 1) {
    std::snprintf(text.data(), text.size(), ", learning rate × %g", group.rate_factor);
    line += text.data();
  }
  const size_t tensors = group.parameters.size();
  return line + ": " + std::to_string(tensors) + (tensors == 1 ? " tensor, " : " tensors, ") +
         human_count(static_cast<double>(elements)) + " parameters";
}

}  // namespace trainctl
