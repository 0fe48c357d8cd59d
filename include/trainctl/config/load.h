// Reading a run config strictly, and writing it back. No tensor library is loaded for any of this.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

struct LoadedConfig {
  Config config;  // resolved: every automatic value that does not depend on data or machine is
                  // filled in
  std::map<std::string, std::string>
      origins;                        // key path → "default", "run.json:12", "--set", "derived"
  std::vector<std::string> warnings;  // e.g. deterministic overrides cudnn_benchmark
  std::string config_dir;             // folder of the file, for ${CONFIG_DIR}
};

// Reads `path`, applies `overrides` ("a.b.c=value", value as JSON or, failing that, as a string),
// checks everything, and throws one usage_error with all problems, one per line, each with
// file:line, key path and cure.
LoadedConfig load_config(const std::string& path, const std::vector<std::string>& overrides);

// The same for a text already in memory; `name` stands for the file in messages.
LoadedConfig parse_config(const std::string& text, const std::string& name,
                          const std::vector<std::string>& overrides = {});

std::string config_to_json(const Config& config);  // resolved, pretty, readable by parse_config
std::string config_json_schema();
std::string config_starter();                         // what `config init` writes: commented
std::string config_docs();                            // docs/config.md
std::string config_show(const LoadedConfig& loaded);  // with the origin of every value

// Whether a word is an override without its --set ("training.max_steps=100"), for messages.
bool looks_like_override(const std::string& word);

}  // namespace trainctl
