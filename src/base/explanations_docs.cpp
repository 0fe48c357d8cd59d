// docs/troubleshooting.md, made from the table.
#include <algorithm>
#include <cctype>
#include <string>

#include "trainctl/base/explanations.h"

namespace trainctl {
namespace {

constexpr const char* kHead =
    "# Troubleshooting\n\n"
    "What the known errors of a machine mean and what to do. `trainctl doctor` looks for all of "
    "these on the machine it runs on; `trainctl run` says the same when it dies of one. An error's "
    "text, a log or a name below can be looked up without this page:\n\n"
    "```sh\n"
    "trainctl doctor --explain 'CUDNN_STATUS_NOT_INITIALIZED'\n"
    "trainctl run config.json 2>&1 | trainctl doctor --explain -\n"
    "```\n\n"
    "Exit codes: [exit-codes.md](exit-codes.md). This page is made by `trainctl doctor --docs`.\n";

// As GitHub makes anchors of headings.
std::string anchor(const std::string& title) {
  std::string out;
  for (const char c : title) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == ' ') {
      out += '-';
    }
  }
  return out;
}

// Our own texts have no Markdown in them; these letters alone would be taken for it.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

// Texts stand as clauses: lower case at the beginning, no full stop.
std::string sentence(const std::string& clause) {
  if (clause.empty()) return clause;
  std::string out = clause;
  const std::string first = out.substr(0, out.find(' '));
  const bool word = std::all_of(first.begin(), first.end(), [](unsigned char c) {
    return std::islower(c) != 0 || c == ',' || c == ':' || c == '\'';
  });
  if (word) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return escaped(out) + (out.ends_with('.') || out.ends_with('?') ? "" : ".");
}

std::string patterns_line(const ExplanationRow& row) {
  std::string text;
  for (const char* pattern : row.patterns) {
    text += (text.empty() ? "" : ", ") + ("`" + std::string(pattern)) + "`";
  }
  return text;
}

std::string row_markdown(const ExplanationRow& row) {
  const Explanation why = fill_row(row, {}).why;
  std::string text = "\n<a id=\"" + std::string(row.id) + "\"></a>\n### " + escaped(row.title) +
                     "\n\n- **Cause**: " + sentence(why.cause) + "\n";
  if (*row.known_by != '\0') text += "- **How to know**: " + escaped(row.known_by) + "\n";
  text += "- **Cure**: " + sentence(why.cure) + "\n";
  if (!row.patterns.empty())
    text += "- **Recognised by** (`*`: anything between): " + patterns_line(row) + "\n";
  return text + "- **Name**: `" + row.id + "`; a run that dies of it exits " +
         std::to_string(static_cast<int>(row.exit_code)) + ".\n";
}

}  // namespace

std::string troubleshooting_markdown() {
  std::string text = kHead;
  for (const ExplanationGroup& group : explanation_groups()) {
    text += "\n- [" + std::string(group.title) + "](#" + anchor(group.title) + ")";
  }
  text += "\n";
  for (const ExplanationGroup& group : explanation_groups()) {
    text += "\n## " + std::string(group.title) + "\n";
    for (const ExplanationRow& row : group.rows) text += row_markdown(row);
  }
  return text;
}

}  // namespace trainctl
