// What is filled in after reading: paths, fields that have no effect, values that follow from
// others.
#include "config/load_state.h"
#include "config/value.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"

namespace trainctl {
namespace {

void copy_value(const Field& field, const void* from, const void* to) {
  std::visit(
      [](auto target, auto source) {
        using T = decltype(target);
        if constexpr (!std::is_same_v<T, decltype(source)>) {
          return;  // never: both are the same field's slot
        } else if constexpr (std::is_same_v<T, EnumSlot>) {
          target.set(target.at, source.get(source.at));
        } else {
          *target = *source;
        }
      },
      field.slot_in(to), field.slot_in(from));
}

}  // namespace

void expand_paths(LoadState* state) {
  for_each_field(config_table(), "", &state->config,
                 [&](const std::string& path, const Field& field, const void* owner) {
                   if (field.string_rule != StringRule::kPath || !state->is_given(path)) return;
                   std::vector<std::string*> texts;
                   const Slot slot = field.slot_in(owner);
                   if (const auto* one = std::get_if<std::string*>(&slot)) texts.push_back(*one);
                   if (const auto* list = std::get_if<std::vector<std::string>*>(&slot)) {
                     for (std::string& text : **list) texts.push_back(&text);
                   }
                   for (std::string* text : texts) {
                     try {
                       *text = expand_path(*text, state->config_dir);
                     } catch (const UserError& error) {
                       state->report.add(state->given.at(path), path, error.what());
                     }
                   }
                 });
}

void check_fit(LoadState* state) {
  static const Config defaults;
  std::vector<std::pair<const Field*, std::pair<const void*, const void*>>> without_effect;
  std::map<std::string, const void*> default_owners;
  for_each_field(config_table(), "", &defaults,
                 [&](const std::string& path, const Field&, const void* owner) {
                   default_owners[path] = owner;
                 });
  for_each_field(config_table(), "", &state->config,
                 [&](const std::string& path, const Field& field, const void* owner) {
                   if (field.is_list() || field.applies(state->config) || !state->is_given(path))
                     return;
                   if (state->report.has(path) || state->report.has(field.condition.depends_on))
                     return;
                   const void* default_owner = default_owners[path];
                   const nlohmann::ordered_json harmless =
                       field.harmless != nullptr ? nlohmann::ordered_json::parse(field.harmless)
                                                 : write_value(field, default_owner);
                   without_effect.push_back({&field, {default_owner, owner}});
                   if (write_value(field, owner) == harmless) return;
                   const std::string text = std::string("has an effect only when ") +
                                            field.condition.text + "; remove it";
                   if (field.misfit == Misfit::kRefuse) {
                     state->report.add(state->given.at(path), path, text);
                   } else {
                     state->warn(path, text);
                   }
                 });
  // The resolved config holds only what has an effect, and so reads back to the same one.
  for (const auto& [field, owners] : without_effect)
    copy_value(*field, owners.first, owners.second);
}

void derive_values(LoadState* state) {
  Config& c = state->config;
  ModelConfig& m = c.model;
  const bool encoder = m.type == ModelType::kEncoderClassifier;
  const auto derived = [&](const char* path) { state->derived.emplace_back(path); };
  if (encoder) {
    m.tie_embeddings = false;
    if (!state->is_given("model.norm_order")) {
      m.norm_order = NormOrder::kPost;
      derived("model.norm_order");
    }
    if (!state->is_given("model.activation")) {
      m.activation = Activation::kRelu;
      derived("model.activation");
    }
    if (m.n_classes == 0) {
      m.n_classes = m.vocab_size;
      derived("model.n_classes");
    }
  }
  if (m.d_ff == 0) {
    // A gated layer has three matrices instead of two: 8/3 keeps the parameter count (Shazeer,
    // 2020).
    m.d_ff = m.activation == Activation::kSwiglu ? (m.d_model * 8 / 3 + 7) / 8 * 8 : 4 * m.d_model;
    derived("model.d_ff");
  }
  if (c.backend.deterministic && c.backend.cudnn_benchmark) {
    c.backend.cudnn_benchmark = false;
    derived("backend.cudnn_benchmark");
    state->warn("backend.cudnn_benchmark",
                "switched off by backend.deterministic: benchmarking may choose another algorithm "
                "each time");
  }
}

}  // namespace trainctl
