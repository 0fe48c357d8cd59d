// From the first word of the command line to the command, and from errors to exit codes.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/command.h"
#include "cli/error_file.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*function)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"run", "train from a JSON config", run_command},
    {"launch", "start several ranks of a config, script or program", launch_command},
    {"config", "write, show and check configs", config_command},
    {"checkpoint", "list, inspect, verify, compare, prune and export checkpoints",
     checkpoint_command},
    {"generate", "continue a prompt with a trained model", generate_command},
    {"doctor", "say whether this machine is fit to train on, and why not", doctor_command},
};

// Names that documents of the project already use, for which a later version brings the command.
constexpr const char* kLaterCommands[] = {"plan",   "data",   "tokenizer", "eval",
                                          "export", "report", "top",       "bench"};

std::string help_text() {
  std::string text =
      "trainctl trains Transformers from one JSON file.\n\n"
      "Usage: trainctl COMMAND …\n\nCommands:\n";
  for (const Command& command : kCommands) {
    char line[128];
    std::snprintf(line, sizeof line, "  %-10s %s\n", command.name, command.summary);
    text += line;
  }
  text +=
      "\nFlags:\n"
      "  --help     this text; trainctl COMMAND --help for a command's\n"
      "  --version  version and build\n\nExit codes:\n";
  return text + exit_codes_text();
}

int unknown_command(const std::string& word) {
  for (const char* later : kLaterCommands) {
    if (word == later) {
      throw usage_error("the command '" + word +
                        "' is not in this version; trainctl --help lists what is");
    }
  }
  if (word == "train" || word == "fit") {
    throw usage_error("unknown command '" + word + "'; training is: trainctl run CONFIG");
  }
  std::vector<std::string> names = {"help", "version"};
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const auto near = nearest(word, names);
  const std::string what = word.starts_with("-") ? "flag" : "command";
  throw usage_error("unknown " + what + " '" + word + "'" +
                    (near ? "; did you mean '" + *near + "'?" : "; trainctl --help lists them"));
}

// Libraries that ask for it end the process in ways of their own.
void require_working_directory() {
  std::error_code error;
  if (fs::current_path(error).empty()) {
    throw usage_error("the working directory is gone (" + error.message() +
                      "): it was removed or moved away; cd to a folder that is there");
  }
}

// A launcher's variables are for the rank it has started, not for another launcher below it.
bool may_be_a_rank(const Arguments& words) { return !words.empty() && words[0] != "launch"; }

int dispatch(const Arguments& words) {
  if (words.empty()) {
    throw usage_error("a command is missing, such as trainctl run config.json; trainctl --help");
  }
  const std::string& word = words[0];
  if (word == "--help" || word == "-h" || word == "help") {
    if (word == "help" && words.size() > 1) return dispatch({words[1], "--help"});
    terminal().print(help_text());
    return 0;
  }
  if (word == "--version" || word == "-V" || word == "version") {
    terminal().print(std::string("trainctl ") + kVersion + " (build " + kBuildId + ")\n");
    return 0;
  }
  require_working_directory();
  for (const Command& command : kCommands) {
    if (word == command.name) return command.function({words.begin() + 1, words.end()});
  }
  return unknown_command(word);
}

}  // namespace

int cli_main(int argc, char** argv) {
  prepare_process();
  set_log_sink(terminal_log_sink());
  int code = 0;
  try {
    const Arguments words(argv + std::min(argc, 1), argv + argc);
    if (may_be_a_rank(words)) set_log_sink(with_error_file(terminal_log_sink()));
    // What launch starts may want words of any bytes; it looks at its own.
    if (words.empty() || words[0] != "launch")
      std::for_each(words.begin(), words.end(), require_utf8);
    code = dispatch(words);
  } catch (const UserError& error) {
    log_error(error.what());
    code = static_cast<int>(error.code());
  } catch (const fs::filesystem_error& error) {
    log_error("cannot use '" + error.path1().string() + "': " + error.code().message());
    code = static_cast<int>(ExitCode::kUsage);
  } catch (const std::exception& error) {
    log_error(std::string("a defect of trainctl: ") + error.what());
    code = static_cast<int>(ExitCode::kTrainingFailed);
  }
  // A reader that went away (`| head`) is no failure of the command.
  if (!terminal().flush() && code == 0 && errno != EPIPE) {
    log_error(std::string("standard output: ") + std::strerror(errno));
    code = static_cast<int>(ExitCode::kTrainingFailed);
  }
  return code;
}

}  // namespace trainctl
