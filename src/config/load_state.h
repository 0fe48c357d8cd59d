// What the stages of loading a config hand to each other: tree → values → checks → derived values.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "config/field.h"
#include "config/json_tree.h"
#include "config/report.h"
#include "trainctl/config/load.h"

namespace trainctl {

struct LoadState {
  explicit LoadState(const std::string& file_name) : report(file_name) {}

  Config config;
  ProblemReport report;
  std::map<std::string, Place> given;  // key path → where it was given
  std::vector<std::string> derived;    // key paths filled in from others
  std::vector<std::string> warnings;
  std::string config_dir;

  bool is_given(const std::string& key_path) const { return given.contains(key_path); }

  // A contradiction between several keys, reported at the first of them that was given. Says
  // nothing when one of them is wrong by itself.
  void conflict(std::initializer_list<const char*> keys, const std::string& text);
  void warn(const std::string& key_path, const std::string& text);
};

// Puts "a.b.c=value" into the tree as source number `source`.
void apply_override(const std::string& text, int source, JsonNode* root, ProblemReport* report);

void read_tree(const JsonNode& root, LoadState* state);  // values, types, ranges, unknown keys
void expand_paths(LoadState* state);                     // ${CONFIG_DIR}, variables, ~
void check_fit(LoadState* state);                        // fields given where they have no effect
void check_combinations(LoadState* state);
void derive_values(LoadState* state);  // after all checks

// What else the key may have meant, as "; did you mean …?", or "".
std::string suggest_key(const std::string& section_path, const Table& table,
                        const std::string& key);

}  // namespace trainctl
