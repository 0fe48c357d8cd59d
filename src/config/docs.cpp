// docs/config.md from the tables.
#include "config/value.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string meaning(const Field& field) {
  std::string text = field.doc;
  if (*field.unit_text != '\0') text += std::string(" Unit: ") + field.unit_text + ".";
  if (field.automatic != nullptr) text += std::string(" Worked out — ") + field.automatic + ".";
  if (field.condition.text != nullptr) {
    text += std::string(" Only when ") + field.condition.text + ".";
  }
  if (field.slot != nullptr) {
    const Slot slot = field.slot(nullptr);
    if (const auto* choice = std::get_if<EnumSlot>(&slot)) {
      for (const EnumValue& value : choice->names->values) {
        text += std::string("<br>`") + value.name + "`: " + value.doc + ".";
      }
    }
  }
  return escaped(text);
}

std::string values(const Field& field) {
  const Slot slot = field.slot(nullptr);
  if (std::holds_alternative<EnumSlot>(slot)) return "a word";
  return escaped(expectation(field));
}

void add_table(const Table& table, const std::string& path, const void* defaults,
               std::string* text) {
  *text += "\n## " + path + "\n\n" + table.doc +
           "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  std::vector<std::pair<const Field*, const void*>> nested;
  for (const Field& field : table.fields) {
    const void* member = defaults == nullptr ? nullptr : field.member(const_cast<void*>(defaults));
    if (field.is_section()) {
      nested.emplace_back(&field, member);
      continue;
    }
    if (field.is_list()) {
      nested.emplace_back(&field, nullptr);
      *text += std::string("| `") + field.key + "` | an array of objects, see below | `[]` | " +
               field.doc + " |\n";
      continue;
    }
    const nlohmann::ordered_json value =
        defaults == nullptr ? nullptr : write_value(field, defaults);
    *text += std::string("| `") + field.key + "` | " + values(field) + " | " +
             (value.is_null() ? "–" : "`" + value.dump() + "`") + " | " + meaning(field) + " |\n";
  }
  for (const auto& [field, member] : nested) {
    const std::string name = path + "." + field->key;
    if (field->is_section()) {
      add_table(field->section(), name, member, text);
    } else {
      add_table(field->list.table(), name + "[]", nullptr, text);
    }
  }
}

}  // namespace

std::string config_docs() {
  std::string text =
      "# The run config\n\n"
      "<!-- Made by `trainctl config docs`; a test compares. Change the tables in src/config. "
      "-->\n\n"
      "One JSON file in UTF-8; `//` and `/* */` comments are allowed, a byte order mark is "
      "dropped.\n"
      "Every key has a default, so that a file need only say what differs. The file is checked\n"
      "before anything is loaded: an unknown or repeated key, a value of the wrong type or out of\n"
      "range, and values that contradict each other end the command with exit code 2 and one line\n"
      "per problem, with file, line, key path and cure. A setting of something not in use "
      "(`betas`\n"
      "with `sgd`) draws a warning and is left out of the resolved config, or is refused where it\n"
      "shows that something else was meant (`pooling` for a `gpt`).\n\n"
      "- `--set a.b=value` overrides a value: JSON or, failing that, a string. Objects are "
      "merged,\n"
      "  arrays replaced, `optimizer.groups[0].params=…` reaches into one, `null` restores the\n"
      "  default.\n"
      "- `trainctl config init|show|validate|schema|docs` writes a starter, shows every value "
      "with\n"
      "  its origin, checks a file, prints the JSON Schema, prints this page.\n"
      "- Paths are relative to the working directory. `${CONFIG_DIR}` (the config file's folder),\n"
      "  environment variables and `~` are expanded; globs may use `**`.\n"
      "- Times are written `\"90s\"`, `\"10m\"`, `\"1h30m\"`, `\"2d\"`.\n"
      "- A top-level `\"$schema\"` key is for editors and ignored.\n"
      "- A whole number may be written `1e6`.\n";
  const Config defaults;
  for (const Field& section : config_table().fields) {
    add_table(section.section(), section.key, section.member(const_cast<Config*>(&defaults)),
              &text);
  }
  return text;
}

}  // namespace trainctl
