// Configs as text: the resolved one, the one that shows origins, the starter.
#include "config/value.h"
#include "trainctl/base/strings.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

// Values on one line each: short lists read better so.
std::string one_line(const nlohmann::ordered_json& value) {
  if (!value.is_array() && !value.is_object()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, item] : value.items()) {
    parts.push_back((value.is_object() ? nlohmann::ordered_json(key).dump() + ": " : "") +
                    one_line(item));
  }
  std::string text = value.is_array() ? "[" : "{";
  return text.append(join(parts, ", ")).append(value.is_array() ? "]" : "}");
}

struct Line {
  std::string text;
  std::string comment;
};

void add_lines(const nlohmann::ordered_json& object, const std::string& path, int depth,
               const std::map<std::string, std::string>* origins, std::vector<Line>* lines) {
  size_t left = object.size();
  for (const auto& [key, value] : object.items()) {
    std::string key_path = path;
    if (!path.empty()) key_path += ".";
    key_path += key;
    std::string head(static_cast<size_t>(depth) * 2, ' ');
    head.append("\"").append(key).append("\": ");
    const char* comma = --left > 0 ? "," : "";
    if (value.is_object()) {
      lines->push_back({head + "{", ""});
      add_lines(value, key_path, depth + 1, origins, lines);
      lines->push_back({std::string(static_cast<size_t>(depth) * 2, ' ') + "}" + comma, ""});
    } else {
      std::string comment;
      if (origins != nullptr) {
        const auto origin = origins->find(key_path);
        if (origin != origins->end()) comment = origin->second;
      }
      lines->push_back({head + one_line(value) + comma, comment});
    }
  }
}

std::string print(const Config& config, const std::map<std::string, std::string>* origins) {
  std::vector<Line> lines = {{"{", ""}};
  add_lines(write_table(config_table(), &config, config), "", 1, origins, &lines);
  lines.push_back({"}", ""});
  constexpr size_t kCommentColumn = 44;
  std::string text;
  for (const Line& line : lines) {
    text += line.text;
    if (!line.comment.empty()) {
      const size_t width = line.text.size();
      text += std::string(width < kCommentColumn ? kCommentColumn - width : 1, ' ') + "// " +
              line.comment;
    }
    text += "\n";
  }
  return text;
}

void add_starter_section(const Field& section, bool last, std::string* text) {
  const Table& table = section.section();
  std::vector<const Field*> shown;
  std::vector<std::string> mentioned;
  for (const Field& field : table.fields) {
    if (field.starter_text != nullptr) {
      shown.push_back(&field);
    } else {
      mentioned.emplace_back(field.key);
    }
  }
  *text += std::string("\n  // ") + table.doc + "\n";
  if (!mentioned.empty()) *text += "  // Also: " + join(mentioned, ", ") + ".\n";
  *text += std::string("  \"") + section.key + "\": {";
  for (size_t i = 0; i < shown.size(); ++i) {
    const Field& field = *shown[i];
    *text += std::string("\n    // ") + field.doc + "\n    \"" + field.key +
             "\": " + field.starter_text + (i + 1 < shown.size() ? "," : "");
  }
  *text += shown.empty() ? "}" : "\n  }";
  *text += last ? "\n" : ",\n";
}

}  // namespace

std::string config_to_json(const Config& config) { return print(config, nullptr); }

std::string config_show(const LoadedConfig& loaded) {
  return print(loaded.config, &loaded.origins);
}

std::string config_starter() {
  std::string text =
      "// A run of trainctl. Every key may be left out, unless it says otherwise, and then has "
      "its\n"
      "// default: see docs/config.md, or `trainctl config docs`. `trainctl config validate FILE`\n"
      "// checks this file, `trainctl config show FILE` prints every value and where it comes "
      "from.\n"
      "{";
  const auto& sections = config_table().fields;
  for (size_t i = 0; i < sections.size(); ++i) {
    add_starter_section(sections[i], i + 1 == sections.size(), &text);
  }
  return text + "}\n";
}

}  // namespace trainctl
