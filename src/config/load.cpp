#include "trainctl/config/load.h"

#include "config/load_state.h"
#include "config/value.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"

namespace trainctl {
namespace {

constexpr uintmax_t kLargestFile = 16 << 20;

void require_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw usage_error("config file '" + path + "' does not exist" +
                      (error && error != std::errc::no_such_file_or_directory
                           ? " (" + error.message() + ")"
                       : looks_like_override(path)
                           ? "; it looks like an override: give each its own --set"
                           : "; trainctl config init " + path + " writes one to start from"));
  }
  if (fs::is_directory(status)) {
    const bool run_dir = fs::exists(fs::path(path) / "config.resolved.json", error);
    throw usage_error(
        "config file '" + path + "' is a folder" +
        (run_dir ? "; its config is " + (fs::path(path) / "config.resolved.json").string() : ""));
  }
  if (!fs::is_regular_file(status) && !fs::is_fifo(status)) {
    throw usage_error("config file '" + path + "' is a device or socket; give a JSON file");
  }
  const uintmax_t size = fs::is_regular_file(status) ? fs::file_size(path, error) : 0;
  if (!error && size > kLargestFile) {
    throw usage_error("config file '" + path + "' has " + std::to_string(size >> 20) +
                      " MiB; that is no config");
  }
}

std::string absolute_folder(const std::string& file) {
  std::error_code error;
  const fs::path folder = fs::absolute(fs::path(file).parent_path(), error);
  return error ? fs::path(file).parent_path().string() : folder.lexically_normal().string();
}

void fill_origins(const LoadState& state, LoadedConfig* loaded) {
  for_each_field(config_table(), "", &loaded->config,
                 [&](const std::string& path, const Field& field, const void*) {
                   if (!field.applies(loaded->config)) return;
                   const auto given = state.given.find(path);
                   loaded->origins[path] =
                       given == state.given.end() ? "default" : state.report.where(given->second);
                 });
  for (const std::string& path : state.derived) {
    if (loaded->origins.contains(path)) loaded->origins[path] = "derived";
  }
}

}  // namespace

bool looks_like_override(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && word.find('.') < equals && word.find('/') > equals;
}

void LoadState::conflict(std::initializer_list<const char*> keys, const std::string& text) {
  const char* blamed = *keys.begin();
  for (const char* key : keys) {
    if (report.has(key)) return;
  }
  for (const char* key : keys) {
    if (is_given(key)) {
      blamed = key;
      break;
    }
  }
  const auto place = given.find(blamed);
  report.add(place == given.end() ? Place{} : place->second, blamed, text);
}

void LoadState::warn(const std::string& key_path, const std::string& text) {
  const auto place = given.find(key_path);
  const std::string where = place == given.end() ? "" : report.where(place->second) + ": ";
  warnings.push_back(where + key_path + ": " + text);
}

LoadedConfig parse_config(const std::string& text, const std::string& name,
                          const std::vector<std::string>& overrides) {
  LoadState state(name);
  state.config_dir = absolute_folder(name);
  JsonResult parsed = parse_json(text);
  for (const JsonProblem& p : parsed.problems) {
    state.report.add({0, p.line, p.column}, p.key_path, p.text);
  }
  if (!parsed.complete) state.report.throw_if_any();
  if (parsed.root.kind == JsonKind::kObject) {
    for (size_t i = 0; i < overrides.size(); ++i) {
      apply_override(overrides[i], static_cast<int>(i) + 1, &parsed.root, &state.report);
    }
  }
  read_tree(parsed.root, &state);
  if (parsed.root.kind == JsonKind::kObject) {
    expand_paths(&state);
    check_fit(&state);
    check_combinations(&state);
  }
  state.report.throw_if_any();
  derive_values(&state);
  LoadedConfig loaded;
  loaded.config = state.config;
  loaded.warnings = state.warnings;
  loaded.config_dir = state.config_dir;
  fill_origins(state, &loaded);
  return loaded;
}

LoadedConfig load_config(const std::string& path, const std::vector<std::string>& overrides) {
  require_file(path);
  return parse_config(read_file(path, ExitCode::kUsage), path, overrides);
}

}  // namespace trainctl
