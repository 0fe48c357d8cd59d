// Reads the launcher's flags by their table (flag_table.cpp).
#include <algorithm>
#include <cctype>

#include "launch/flag_table.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"
#include "trainctl/launch/options.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

constexpr const char* kHelpHint = "; trainctl launch --help";

std::vector<std::string> names_of(const FlagRow& row) {
  std::vector<std::string> names = {row.name};
  if (row.other_name != nullptr) names.emplace_back(row.other_name);
  return names;
}

// By full name, or as argparse does by the start of one that no other flag shares.
const FlagRow* find_flag(const std::string& flag) {
  std::string name = flag.substr(2);
  std::replace(name.begin(), name.end(), '_', '-');
  const FlagRow* starts = nullptr;
  std::vector<std::string> candidates;
  for (const FlagRow& row : launch_flags()) {
    for (const std::string& full : names_of(row)) {
      if (full == name) return &row;
      if (name.empty() || !full.starts_with(name) || starts == &row) continue;
      starts = &row;
      candidates.push_back("--" + full);
    }
  }
  if (candidates.size() > 1) {
    throw usage_error("'" + flag + "' is the start of several flags of launch: " +
                      join(candidates, ", ") + "; write the one that is meant");
  }
  return starts;
}

const FlagRow* find_letter(char letter) {
  for (const FlagRow& row : launch_flags())
    if (row.letter == letter) return &row;
  return nullptr;
}

[[noreturn]] void unknown(const std::string& flag) {
  std::vector<std::string> names = {"--help"};
  for (const FlagRow& row : launch_flags())
    for (const std::string& name : names_of(row)) names.push_back("--" + name);
  std::string dashed = flag;
  std::replace(dashed.begin() + 2, dashed.end(), '_', '-');
  const auto near = nearest(dashed, names);
  throw usage_error(
      "unknown flag '" + flag + "' of launch" +
      (near ? "; did you mean '" + *near + "'?" : std::string(kHelpHint) + " lists them"));
}

void apply(const FlagRow& row, LaunchOptions* options, const FlagValue& value) {
  row.set(options, value);
  if (row.note != nullptr)
    options->notes.push_back(value.source + " of torchrun changes nothing here: " + row.note);
  options->sources[row.name] = value.source;
}

std::string variable_name(const std::string& prefix, std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return prefix + name;
}

// What --standalone on the command line overrides.
bool is_about_nodes(const std::string& flag) {
  return flag == "nnodes" || flag == "node-rank" || flag == "rdzv-endpoint";
}

void read_environment(const LaunchOptions& command_line, LaunchOptions* options,
                      const EnvironmentLookup& variable) {
  for (const FlagRow& row : launch_flags()) {
    if (command_line.given(row.name)) continue;
    if (command_line.standalone && is_about_nodes(row.name)) continue;
    std::vector<std::string> candidates;  // the first that is set counts
    for (const std::string& name : names_of(row))
      candidates.push_back(variable_name("TRAINCTL_", name));
    if (row.from_torchrun) {
      for (const std::string& name : names_of(row))
        candidates.push_back(variable_name("PET_", name));
    }
    for (const std::string& candidate : candidates) {
      const auto value = variable(candidate);
      if (!value) continue;
      apply(row, options, {candidate, *value});
      break;
    }
  }
}

class WordReader {
 public:
  WordReader(const std::vector<std::string>& words, LaunchCommandLine* line)
      : words_(words), line_(line) {}

  void read() {
    while (at_ < words_.size() && !line_->help) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        line_->is_program = true;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      require_utf8(word);
      ++at_;
      if (word == "--help" || word == "-h") {
        line_->help = true;
      } else if (word[1] == '-') {
        read_long(word);
      } else {
        read_short(word);
      }
    }
    line_->words.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
  }

 private:
  void read_long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const FlagRow* row = find_flag(flag);
    if (row == nullptr) unknown(flag);
    if (row->value == nullptr) {
      if (equals != std::string::npos) throw usage_error(flag + " takes no value" + kHelpHint);
      apply(*row, &line_->options, {flag, ""});
    } else if (equals != std::string::npos) {
      apply(*row, &line_->options, {flag, word.substr(equals + 1)});
    } else {
      apply(*row, &line_->options, {flag, next_value(flag, *row)});
    }
  }

  void read_short(const std::string& word) {  // -m, -r 3, -r3
    const std::string flag = word.substr(0, 2);
    const FlagRow* row = find_letter(word[1]);
    if (row == nullptr || (row->value == nullptr && word.size() > 2))
      throw usage_error("unknown flag '" + word + "' of launch" + kHelpHint + " lists them");
    std::string value;
    if (row->value != nullptr) value = word.size() > 2 ? word.substr(2) : next_value(flag, *row);
    apply(*row, &line_->options, {flag, value});
  }

  std::string next_value(const std::string& flag, const FlagRow& row) {
    if (at_ == words_.size()) throw usage_error(flag + " needs a value, " + row.value + kHelpHint);
    require_utf8(words_[at_]);
    return words_[at_++];
  }

  const std::vector<std::string>& words_;
  LaunchCommandLine* line_;
  size_t at_ = 0;
};

void check_together(const LaunchOptions& options) {
  const auto on_command_line = [&options](const std::string& flag) {
    return options.given(flag) && options.source(flag).starts_with("-");
  };
  if (options.module && options.no_python)
    throw usage_error(options.source("module") + " and " + options.source("no-python") +
                      " exclude each other");
  if (options.node_rank && *options.node_rank >= options.node_count) {
    throw usage_error(options.source("node-rank") + " is " + std::to_string(*options.node_rank) +
                      ", but there " + (options.node_count == 1 ? "is " : "are ") +
                      counted(options.node_count, "node") + " (" + options.source("nnodes") +
                      "), numbered from 0");
  }
  if (!options.standalone) return;
  for (const char* flag : {"nnodes", "rdzv-endpoint", "node-rank"}) {
    if (on_command_line(flag) && (std::string(flag) == "rdzv-endpoint" || options.node_count > 1))
      throw usage_error(options.source("standalone") + " means one node by itself: leave " +
                        options.source(flag) + " out");
  }
}

}  // namespace

int StreamChoice::of(int64_t local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? all : found->second;
}

bool StreamChoice::any() const {
  return all != 0 || std::any_of(by_rank.begin(), by_rank.end(),
                                 [](const auto& entry) { return entry.second != 0; });
}

std::string LaunchOptions::source(const std::string& flag) const {
  const auto found = sources.find(flag);
  return found == sources.end() ? "--" + flag : found->second;
}

LaunchCommandLine parse_launch_command_line(const std::vector<std::string>& words,
                                            const EnvironmentLookup& variable) {
  LaunchCommandLine line;
  WordReader(words, &line).read();
  if (line.help) return line;
  LaunchCommandLine result;
  read_environment(line.options, &result.options, variable);
  WordReader(words, &result).read();
  check_together(result.options);
  if (result.options.standalone) {
    result.options.node_count = 1;
    result.options.node_rank.reset();
    result.options.rdzv_endpoint.clear();
  }
  return result;
}

namespace {

std::string flag_text(const FlagRow& row) {
  std::string text = row.letter != 0 ? std::string("-") + row.letter + ", " : "";
  text += std::string("--") + row.name;
  if (row.value != nullptr) text += std::string(" ") + row.value;
  return text;
}

}  // namespace

bool is_launch_flag(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  if (!name.starts_with("--")) return false;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  return std::any_of(launch_flags().begin(), launch_flags().end(), [&name](const FlagRow& row) {
    return name.substr(2) == row.name ||
           (row.other_name != nullptr && name.substr(2) == row.other_name);
  });
}

std::string launch_flags_help() {
  constexpr size_t kColumn = 4;
  constexpr size_t kWidth = 96;
  std::string help;
  for (const FlagRow& row : launch_flags()) {
    if (row.note != nullptr) continue;
    help += "  " + flag_text(row);
    if (row.other_name != nullptr) help += std::string(" (also --") + row.other_name + ")";
    std::string line(kColumn, ' ');
    std::string_view rest = row.help;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      if (line.size() + word.size() + 1 > kWidth) {
        help += "\n" + line;
        line.assign(kColumn, ' ');
      }
      line += " " + std::string(word);
    }
    help += "\n" + line + "\n";
  }
  return help;
}

}  // namespace trainctl
