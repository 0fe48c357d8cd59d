#include "trainctl/report/header.h"

#include <algorithm>

#include "report/columns.h"

namespace trainctl {

std::string format_header(const HeaderLines& lines) {
  size_t label_width = 0;
  for (const auto& line : lines) {
    label_width = std::max(label_width, display_columns(line.first));
  }
  std::string out;
  const std::string* above = nullptr;
  for (const auto& [label, value] : lines) {
    if (label.empty()) {
      out += value + "\n";
      above = nullptr;
      continue;
    }
    const bool repeated = above != nullptr && *above == label;
    above = &label;
    const std::string& shown = repeated ? std::string() : label;
    const std::string indent(2 + label_width + 2, ' ');
    std::string line = "  " + shown + std::string(indent.size() - 2 - display_columns(shown), ' ');
    for (const char c : value) {
      line += c;
      if (c == '\n') {
        line += indent;
      }
    }
    line.erase(line.find_last_not_of(" \n") + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace trainctl
