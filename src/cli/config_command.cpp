// trainctl config init|show|validate|schema|docs
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

int config_init(const Arguments& words) {
  std::string path;
  bool force = false;
  CLI::App app("Writes a commented config to start from.", "trainctl config init");
  app.add_option("PATH", path, "Where to write it; left out: standard output");
  app.add_flag("--force", force, "Replace a file that is there");
  if (const auto done = parse_arguments(&app, words)) return *done;
  if (path.empty()) {
    terminal().print(config_starter());
    return 0;
  }
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw usage_error("'" + path + "' is a folder; name the file to write in it");
  }
  if (fs::exists(path, error) && !force) {
    throw usage_error("'" + path + "' is there already; choose another name, or --force");
  }
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw usage_error("'" + path + "' cannot be written: there is no folder '" + folder.string() +
                      "'; make it first (mkdir -p)");
  }
  write_file_atomic(path, config_starter(), ExitCode::kUsage);
  terminal().print("wrote " + path + "\nnext: name your text in data.train, then trainctl run " +
                   path + "\n");
  return 0;
}

int config_show(const Arguments& words) {
  std::string path;
  std::vector<std::string> overrides;
  bool plain = false;
  CLI::App app("Prints the resolved config with the origin of every value.",
               "trainctl config show");
  app.add_option("CONFIG", path, "The config file")->required();
  add_repeated(&app, "--set", &overrides, "KEY=VALUE overrides a value");
  app.add_flag("--json", plain, "Plain JSON, without the origins");
  if (const auto done = parse_arguments(&app, words)) return *done;
  const LoadedConfig loaded = load_config(path, overrides);
  for (const std::string& warning : loaded.warnings) log_warning(warning);
  terminal().print(plain ? config_to_json(loaded.config) : config_show(loaded));
  return 0;
}

int config_validate(const Arguments& words) {
  std::vector<std::string> paths, overrides;
  CLI::App app("Checks configs and prints everything wrong with them.", "trainctl config validate");
  app.add_option("CONFIG", paths, "The config files")->required();
  add_repeated(&app, "--set", &overrides, "KEY=VALUE overrides a value");
  if (const auto done = parse_arguments(&app, words)) return *done;
  int code = 0;
  for (const std::string& path : paths) {
    try {
      for (const std::string& warning : load_config(path, overrides).warnings) log_warning(warning);
      terminal().print(path + ": valid\n");
    } catch (const UserError& error) {
      log_error(error.what());
      code = static_cast<int>(error.code());
    }
  }
  return code;
}

int print_made(const Arguments& words, const char* name, const char* what, std::string (*make)()) {
  CLI::App app(what, std::string("trainctl config ") + name);
  if (const auto done = parse_arguments(&app, words)) return *done;
  terminal().print(make());
  return 0;
}

int config_schema_command(const Arguments& words) {
  return print_made(words, "schema", "Prints the JSON Schema of configs (draft 2020-12).",
                    config_json_schema);
}

int config_docs_command(const Arguments& words) {
  return print_made(words, "docs", "Prints the reference of all config keys (Markdown).",
                    config_docs);
}

struct Subcommand {
  const char* name;
  const char* summary;
  int (*function)(const Arguments&);
};

constexpr Subcommand kSubcommands[] = {
    {"init", "write a commented config to start from", config_init},
    {"show", "print the resolved config with the origin of every value", config_show},
    {"validate", "print everything wrong with a config", config_validate},
    {"schema", "print the JSON Schema", config_schema_command},
    {"docs", "print the reference of all keys", config_docs_command},
};

std::string usage() {
  std::string text = "Usage: trainctl config SUBCOMMAND …\n\nSubcommands:\n";
  for (const Subcommand& row : kSubcommands) {
    text += std::string("  ") + row.name + std::string(10 - std::string(row.name).size(), ' ') +
            row.summary + "\n";
  }
  return text;
}

}  // namespace

int config_command(const Arguments& words) {
  std::vector<std::string> names;
  for (const Subcommand& row : kSubcommands) names.emplace_back(row.name);
  if (words.empty()) throw usage_error("config needs one of " + join(names, ", "));
  if (words[0] == "--help" || words[0] == "-h") {
    terminal().print(usage());
    return 0;
  }
  for (const Subcommand& row : kSubcommands) {
    if (words[0] == row.name) return row.function({words.begin() + 1, words.end()});
  }
  const auto near = nearest(words[0], names);
  throw usage_error("config has no '" + words[0] + "'" +
                    (near ? "; did you mean '" + *near + "'?" : ": it has " + join(names, ", ")));
}

}  // namespace trainctl
