#include "trainctl/launch/target.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

// Our own commands; those that several ranks cannot share are refused by name.
struct OwnCommand {
  const char* name;
  bool ranks;    // several ranks run it together
  bool present;  // in this version
};
constexpr OwnCommand kOwnCommands[] = {
    {"run", true, true},         {"eval", true, false},        {"bench", true, false},
    {"doctor", true, true},      {"config", false, true},      {"generate", false, true},
    {"launch", false, true},     {"plan", false, false},       {"data", false, false},
    {"export", false, false},    {"report", false, false},     {"top", false, false},
    {"tokenizer", false, false}, {"checkpoint", false, false},
};

bool is_executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw environment_error("cannot read /proc/self/exe: " + error.message());
  return path;
}

LaunchTarget own_target(TargetKind kind, std::vector<std::string> command) {
  std::for_each(command.begin(), command.end(), require_utf8);
  LaunchTarget target;
  target.kind = kind;
  target.path = own_path();
  target.argv = {target.path};
  target.argv.insert(target.argv.end(), command.begin(), command.end());
  target.name = "trainctl " + command[0];
  target.command = std::move(command);
  return target;
}

LaunchTarget program_target(const std::vector<std::string>& words,
                            const EnvironmentLookup& variable) {
  LaunchTarget target;
  target.name = replace_invalid_utf8(words[0]);
  target.path = find_program(words[0], variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  if (target.path.empty()) {
    std::error_code error;
    const bool there = words[0].find('/') != std::string::npos && fs::exists(words[0], error);
    throw usage_error("'" + target.name + "' " +
                      (there ? "is not executable; chmod +x it, or start it through its interpreter"
                             : "is no program that can be found; check the name and PATH"));
  }
  target.argv = words;
  return target;
}

// As torchrun: $PYTHON_EXEC, else the Python that `python3` is in the shell.
std::string find_python(const EnvironmentLookup& variable) {
  const std::string path = variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  if (const auto named = variable("PYTHON_EXEC")) {
    const std::string found = find_program(*named, path);
    if (found.empty())
      throw usage_error("PYTHON_EXEC is '" + *named + "', which is no program; name a Python");
    return found;
  }
  for (const char* name : {"python3", "python"}) {
    if (std::string found = find_program(name, path); !found.empty()) return found;
  }
  throw environment_error(
      "neither python3 nor python is in PATH; set PYTHON_EXEC, or start another program with "
      "launch … -- program");
}

bool names_other_interpreter(std::string_view first_line) {
  if (!first_line.starts_with("#!")) return false;
  const auto names = {"python", "pypy", "uv "};  // uv run: Python with its packages
  return std::none_of(names.begin(), names.end(), [first_line](std::string_view name) {
    return first_line.find(name) != std::string_view::npos;
  });
}

// A compiled program given as a script would end in a page of Python's syntax errors.
void require_script(const std::string& word) {
  std::error_code error;
  if (!fs::exists(word, error)) {
    std::vector<std::string> names;
    for (const OwnCommand& command : kOwnCommands)
      if (command.ranks) names.emplace_back(command.name);
    const auto near = nearest(word, names);
    const bool bare = word.find('/') == std::string::npos && word.find('.') == std::string::npos;
    throw usage_error("there is no script '" + replace_invalid_utf8(word) + "'" +
                      (near && bare ? "; did you mean the command '" + *near + "'?"
                       : bare       ? "; a program is started with launch … -- " + word
                                    : "; check the path"));
  }
  if (fs::is_directory(word, error) && !fs::exists(fs::path(word) / "__main__.py", error))
    throw usage_error("'" + word + "' is a folder; give a script, a config or a program");
  char start[128] = {};
  std::ifstream(word, std::ios::binary).read(start, sizeof start - 1);
  const std::string_view line =
      std::string_view(start).substr(0, std::string_view(start).find('\n'));
  if (line.starts_with("\x7f"
                       "ELF") ||
      names_other_interpreter(line)) {
    throw usage_error("'" + word +
                      "' is a program, not a Python script; start it with launch … -- " +
                      (word.find('/') == std::string::npos ? "./" : "") + word);
  }
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path_variable) {
  if (name.empty()) return "";
  if (name.find('/') != std::string::npos) return is_executable(name) ? name : "";
  std::string_view rest = path_variable;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    const fs::path path = fs::path(folder.empty() ? "." : folder) / name;
    if (is_executable(path)) return path;
    if (colon == std::string_view::npos) return "";
    rest.remove_prefix(colon + 1);
  }
}

std::string shell_quote(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-+=./:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

LaunchTarget resolve_target(const LaunchCommandLine& line, const EnvironmentLookup& variable) {
  const std::vector<std::string>& words = line.words;
  const LaunchOptions& options = line.options;
  if (words.empty()) {
    throw usage_error(
        "launch needs what to start: CONFIG.json, run …, script.py … or -- program …; trainctl "
        "launch --help");
  }
  if (words[0].empty()) {
    throw usage_error(
        "the name of what launch shall start is empty; where a script calls it with a variable, "
        "that is not set");
  }
  if (line.is_program || options.no_python) {
    if (options.module)
      throw usage_error(options.source("module") + " names a Python module, but a program follows");
    return program_target(words, variable);
  }
  if (!options.module) {
    for (const OwnCommand& command : kOwnCommands) {
      if (words[0] != command.name) continue;
      if (command.ranks && command.present) return own_target(TargetKind::kCommand, words);
      throw usage_error(command.ranks
                            ? "launch " + words[0] + " is not in this version; launch run is"
                            : "launch starts ranks that work together, which 'trainctl " +
                                  words[0] + "' has no use for; run it by itself");
    }
    if (words[0].ends_with(".json") || words[0].ends_with(".jsonc")) {
      std::vector<std::string> command = {"run"};
      command.insert(command.end(), words.begin(), words.end());
      return own_target(TargetKind::kConfig, command);
    }
    require_script(words[0]);
  }
  LaunchTarget target;
  target.kind = options.module ? TargetKind::kModule : TargetKind::kScript;
  target.name = replace_invalid_utf8(words[0]);
  target.path = find_python(variable);
  target.argv = {target.path, "-u"};  // unbuffered, so that a crash loses no line
  if (options.module) target.argv.emplace_back("-m");
  target.argv.insert(target.argv.end(), words.begin(), words.end());
  return target;
}

}  // namespace trainctl
