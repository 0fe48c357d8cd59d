#include "cli/doctor_explain.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/explanations.h"
#include "trainctl/base/files.h"
#include "trainctl/base/library_error.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

constexpr size_t kLongestLine = 4096;
constexpr size_t kLongestInput = size_t{64} << 20;
constexpr int kDetailLines = 4;  // NCCL tells the reason some lines below the error

struct Match {
  const ExplanationRow* row;
  std::string line;
  Explanation why;
};

std::string standard_input() {
  std::string text(kLongestInput, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  return text;
}

std::string text_of(const std::string& what) {
  if (what == "-") return standard_input();
  std::error_code error;
  if (!fs::is_regular_file(what, error)) return what;
  if (fs::file_size(what, error) > kLongestInput)
    throw usage_error("'" + what +
                      "' is larger than 64 MiB; cut out the part with the error: tail " +
                      "-n 1000 '" + what + "' | trainctl doctor --explain -");
  return read_file(what, ExitCode::kUsage);
}

const ExplanationRow* row_of_name(const std::string& name) {
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      if (name == row.id) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line.substr(0, kLongestLine));
  return lines;
}

// Each row once, where it is first met.
std::vector<Match> matches_in(const std::string& text) {
  std::vector<Match> matches;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line = lines[i];
    std::string said = line;
    if (said.find("NCCL error in") != std::string::npos) {
      // One error: its details are no others.
      for (int k = 0; k < kDetailLines && i + 1 < lines.size(); ++k) said += "\n" + lines[++i];
    }
    const auto known = recognize_error(said);
    if (!known) continue;
    const bool seen = std::any_of(matches.begin(), matches.end(),
                                  [&](const Match& match) { return match.row == known->row; });
    if (!seen) matches.push_back({known->row, replace_invalid_utf8(line), known->why});
  }
  return matches;
}

std::string to_text(const Match& match) {
  std::string text = std::string(match.row->title) + "\n";
  if (!match.line.empty()) text += "  seen:  " + match.line + "\n";
  text += "  why:   " + match.why.cause + "\n";
  if (*match.row->known_by != '\0') text += "  known: " + std::string(match.row->known_by) + "\n";
  return text + "  cure:  " + match.why.cure + "\n  link:  docs/troubleshooting.md#" +
         match.row->id + "\n";
}

nlohmann::ordered_json to_json(const Match& match) {
  nlohmann::ordered_json out = {{"id", match.row->id}, {"title", match.row->title}};
  if (!match.line.empty()) out["line"] = match.line;
  out["cause"] = match.why.cause;
  out["cure"] = match.why.cure;
  out["known_by"] = match.row->known_by;
  out["exit_code"] = static_cast<int>(match.row->exit_code);
  out["link"] = std::string("docs/troubleshooting.md#") + match.row->id;
  return out;
}

}  // namespace

int explain_command(const std::string& what, bool json) {
  std::vector<Match> matches;
  if (const ExplanationRow* row = row_of_name(what)) {
    matches.push_back({row, "", fill_row(*row, {}).why});
  } else {
    matches = matches_in(text_of(what));
  }
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const Match& match : matches) list.push_back(to_json(match));
    terminal().print(nlohmann::ordered_json{{"explanations", list}}.dump(2) + "\n");
  } else if (matches.empty()) {
    terminal().print(
        "Nothing known is in that text. trainctl doctor looks at the machine itself; "
        "docs/troubleshooting.md lists what is known.\n");
  } else {
    std::string text;
    for (const Match& match : matches) text += (text.empty() ? "" : "\n") + to_text(match);
    terminal().print(text);
  }
  return matches.empty() ? 1 : 0;
}

}  // namespace trainctl
