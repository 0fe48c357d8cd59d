// Every field of the tables is fed values that must be refused: a new field is tested by being
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/value.h"
#include "config_testing.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;

struct NamedField {
  std::string path;
  const Field* field;
};

std::vector<NamedField> all_fields() {
  static const Config defaults;
  std::vector<NamedField> fields;
  for_each_field(config_table(), "", &defaults,
                 [&](const std::string& path, const Field& field, const void*) {
                   fields.push_back({path, &field});
                 });
  return fields;
}

std::vector<NamedField> value_fields() {
  std::vector<NamedField> fields = all_fields();
  std::erase_if(fields, [](const NamedField& f) { return f.field->is_list(); });
  return fields;
}

// A config file with the field alone on line 2.
std::string file_with(const std::string& path, const std::string& value) {
  std::string text, closing;
  size_t at = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', at)) {
    text += "{\"" + path.substr(at, dot - at) + "\":";
    closing += "}";
    at = dot + 1;
  }
  return text + "{\n\"" + path.substr(at) + "\":" + value + "\n}" + closing;
}

// The problem with `path`, which must name its line.
void expect_refused(const std::string& path, const std::string& value) {
  const std::string message = config_error(file_with(path, value));
  EXPECT_THAT(message, HasSubstr("run.json:2: " + path + ": ")) << path << " = " << value;
}

enum class Kind { kBool, kToggle, kInteger, kNumber, kString, kWord, kTime, kStrings, kNumbers };

struct KindOf {
  const Field& field;
  Kind operator()(bool*) const { return Kind::kBool; }
  Kind operator()(Toggle*) const { return Kind::kToggle; }
  Kind operator()(int64_t*) const { return Kind::kInteger; }
  Kind operator()(std::optional<int64_t>*) const { return Kind::kInteger; }
  Kind operator()(double*) const { return field.duration ? Kind::kTime : Kind::kNumber; }
  Kind operator()(std::optional<double>*) const { return Kind::kNumber; }
  Kind operator()(std::string*) const { return Kind::kString; }
  Kind operator()(Interval*) const { return Kind::kTime; }
  Kind operator()(std::vector<std::string>*) const { return Kind::kStrings; }
  Kind operator()(std::vector<double>*) const { return Kind::kNumbers; }
  Kind operator()(const EnumSlot&) const { return Kind::kWord; }
};

std::vector<std::string> bad_values(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return {"1", "0.5", "\"true\"", "[]", "{}", "null", "\"auto\""};
    case Kind::kToggle:
      return {"1", "\"true\"", "\"atuo\"", "[]", "{}", "null"};
    case Kind::kInteger:
      return {"2.5",   "\"8\"", "true", "[1]", "{}", "null", "\"abc\"", "99999999999999999999",
              "1e300", "-1"};
    case Kind::kNumber:
      return {"\"0.001\"", "true", "[1]", "{}", "null", "\"abc\"", "-1"};
    case Kind::kString:
      return {"1", "true", "[\"a\"]", "{}", "null", "\"\"", "\"a\\u0000b\""};
    case Kind::kWord:
      return {"1", "true", "[]", "{}", "null", "\"\"", "\"no such word\""};
    case Kind::kTime:
      return {"-1",      "true",  "[1]",  "{}",      "null",      "\"10\"",
              "\"10x\"", "\"m\"", "\"\"", "\"-5m\"", "\"1e999d\""};
    case Kind::kStrings:
      return {"1", "\"a\"", "{}", "null", "[1]", "[null]", "[[\"a\"]]"};
    case Kind::kNumbers:
      return {"1", "{}", "null", "[]", "[\"0.9\", 0.9]", "[0.9, true]", "[0.9, 0.9, 0.9]"};
  }
  return {};
}

Kind kind_of(const Field& field) { return std::visit(KindOf{field}, field.slot(nullptr)); }

TEST(EveryField, RefusesValuesOfTheWrongType) {
  for (const auto& [path, field] : value_fields()) {
    for (const std::string& value : bad_values(kind_of(*field))) expect_refused(path, value);
  }
}

TEST(EveryField, RefusesNumbersOutOfRange) {
  int tried = 0;
  for (const auto& [path, field] : value_fields()) {
    const Kind kind = kind_of(*field);
    if (kind != Kind::kInteger && kind != Kind::kNumber && kind != Kind::kNumbers &&
        kind != Kind::kTime) {
      continue;
    }
    std::vector<std::string> outside;
    if (field->minimum) {
      outside.push_back(number_text(*field->minimum - 1));
      if (field->minimum_excluded) outside.push_back(number_text(*field->minimum));
    }
    if (field->maximum) {
      outside.push_back(number_text(*field->maximum * 2));
      if (field->maximum_excluded) outside.push_back(number_text(*field->maximum));
    }
    for (const std::string& value : outside) {
      expect_refused(path, kind == Kind::kNumbers ? "[" + value + "," + value + "]" : value);
      ++tried;
    }
  }
  EXPECT_GT(tried, 60);
}

TEST(EveryField, NumberInQuotesIsToldToDropThem) {
  for (const auto& [path, field] : value_fields()) {
    if (kind_of(*field) != Kind::kInteger && kind_of(*field) != Kind::kNumber) continue;
    EXPECT_THAT(config_error(file_with(path, "\"0.25\"")), HasSubstr("write 0.25 without quotes"))
        << path;
  }
}

TEST(EveryField, MisspelledKeyIsAnsweredWithTheRightOne) {
  for (const auto& [path, field] : all_fields()) {
    const std::string key = field->key;
    if (key.size() < 4) continue;
    std::string wrong = path;
    std::swap(wrong[wrong.size() - 2], wrong[wrong.size() - 1]);
    if (wrong == path) wrong += "x";
    EXPECT_THAT(config_error(file_with(wrong, "1")), HasSubstr("did you mean " + path + "?"))
        << wrong;
  }
}

TEST(EveryField, InAWrongSectionIsAnsweredWithTheRightOne) {
  std::map<std::string, std::set<std::string>> homes;
  for (const auto& [path, field] : all_fields()) homes[field->key].insert(path);
  for (const auto& [key, paths] : homes) {
    if (paths.size() > 1 || *paths.begin() == "logging." + key || key == "interval") continue;
    if (config_table().find(key) != nullptr) continue;  // "backend" is a section too
    const std::string message = config_error("{\"logging\": {\"" + key + "\": 1}}");
    EXPECT_THAT(message, HasSubstr("did you mean " + *paths.begin() + "?")) << key;
  }
}

TEST(EveryField, HasADescriptionAndADefaultInRange) {
  const Config defaults;
  for_each_field(config_table(), "", &defaults,
                 [&](const std::string& path, const Field& field, const void* owner) {
                   EXPECT_GE(std::string(field.doc).size(), 8U) << path;
                   if (field.is_list()) return;
                   const nlohmann::ordered_json value = write_value(field, owner);
                   if (value.is_null()) return;
                   Config copy;
                   const JsonResult parsed = parse_json(value.dump());
                   ASSERT_TRUE(parsed.complete);
                   EXPECT_EQ(read_value(field, parsed.root, const_cast<void*>(owner)), "") << path;
                 });
}

TEST(EveryWord, OfEveryChoiceIsReadAndWrittenBack) {
  for (const auto& [path, field] : value_fields()) {
    if (kind_of(*field) != Kind::kWord) continue;
    const Slot slot = field->slot(nullptr);
    for (const EnumValue& value : std::get<EnumSlot>(slot).names->values) {
      const std::string message =
          config_error(file_with(path, std::string("\"") + value.name + "\""));
      EXPECT_THAT(message, ::testing::Not(HasSubstr(std::string("\"") + value.name + "\" is")))
          << path;
    }
    for (const RefusedValue& value : std::get<EnumSlot>(slot).names->refused) {
      const std::string message =
          config_error(file_with(path, std::string("\"") + value.name + "\""));
      EXPECT_THAT(message, HasSubstr(value.why)) << path;
      EXPECT_THAT(message, HasSubstr("run.json:2: " + path)) << path;
    }
  }
}

TEST(EveryOtherName, LeadsToTheKey) {
  for (const auto& [path, field] : all_fields()) {
    const std::string section = path.substr(0, path.size() - std::string(field->key).size());
    for (const char* name : field->also_known_as) {
      EXPECT_THAT(config_error(file_with(section + name, "1")), HasSubstr(path)) << name;
    }
  }
}

}  // namespace
}  // namespace trainctl
