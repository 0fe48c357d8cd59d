// JSON Schema (draft 2020-12) of the config, for editors and other checkers.
#include "config/value.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDurationPattern =
    "^(([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?[dhms])+$";

ordered_json number(double value) {
  if (value == static_cast<double>(static_cast<int64_t>(value))) return static_cast<int64_t>(value);
  return value;
}

void add_range(const Field& field, ordered_json* schema) {
  if (field.minimum) {
    (*schema)[field.minimum_excluded ? "exclusiveMinimum" : "minimum"] = number(*field.minimum);
  }
  if (field.maximum) {
    (*schema)[field.maximum_excluded ? "exclusiveMaximum" : "maximum"] = number(*field.maximum);
  }
}

ordered_json string_schema(StringRule rule) {
  ordered_json schema = {{"type", "string"}};
  if (rule == StringRule::kNotEmpty || rule == StringRule::kPath) schema["minLength"] = 1;
  if (rule == StringRule::kDevice) schema["pattern"] = "^(auto|cpu|cuda(:[0-9]{1,3})?)$";
  if (rule == StringRule::kName) {
    schema["pattern"] = "^(?!\\.{1,2}$)[^/\\u0000-\\u001f\\u007f]+$";
    schema["maxLength"] = 200;
  }
  return schema;
}

struct SchemaOf {
  const Field& field;
  ordered_json operator()(bool*) const { return {{"type", "boolean"}}; }
  ordered_json operator()(Toggle*) const { return {{"enum", {true, false, "auto"}}}; }
  ordered_json operator()(std::string*) const { return string_schema(field.string_rule); }
  ordered_json operator()(int64_t*) const { return ranged("integer"); }
  ordered_json operator()(std::optional<int64_t>*) const { return ranged("integer"); }
  ordered_json operator()(std::optional<double>*) const { return ranged("number"); }
  ordered_json operator()(double*) const {
    if (field.duration) return with_time(ranged("number"));
    return ranged("number");
  }
  ordered_json operator()(Interval*) const {
    return with_time({{"type", "integer"}, {"minimum", 0}});
  }
  ordered_json operator()(std::vector<std::string>*) const {
    ordered_json items = string_schema(field.string_rule);
    if (!field.choices.empty()) items = {{"enum", field.choices}};
    return {{"type", "array"}, {"items", items}};
  }
  ordered_json operator()(std::vector<double>*) const {
    ordered_json schema = {{"type", "array"}, {"items", ranged("number")}};
    if (field.length) schema["minItems"] = schema["maxItems"] = *field.length;
    return schema;
  }
  ordered_json operator()(const EnumSlot& slot) const {
    ordered_json names = ordered_json::array();
    for (const EnumValue& value : slot.names->values) names.push_back(value.name);
    return {{"enum", names}};
  }

 private:
  ordered_json ranged(const char* type) const {
    ordered_json schema = {{"type", type}};
    add_range(field, &schema);
    return schema;
  }
  static ordered_json with_time(ordered_json plain) {
    const ordered_json time = {{"type", "string"}, {"pattern", kDurationPattern}};
    return {{"anyOf", ordered_json::array({std::move(plain), time})}};
  }
};

std::string description(const Field& field) {
  std::string text = field.doc;
  if (*field.unit_text != '\0') text += std::string(" Unit: ") + field.unit_text + ".";
  if (field.automatic != nullptr) text += std::string(" Default: ") + field.automatic + ".";
  if (field.condition.text != nullptr)
    text += std::string(" Only when ") + field.condition.text + ".";
  return text;
}

ordered_json table_schema(const Table& table, const void* defaults) {
  ordered_json properties = ordered_json::object();
  for (const Field& field : table.fields) {
    void* member = defaults == nullptr ? nullptr : field.member(const_cast<void*>(defaults));
    ordered_json schema;
    if (field.is_section()) {
      schema = table_schema(field.section(), member);
    } else if (field.is_list()) {
      schema = {{"type", "array"}, {"items", table_schema(field.list.table(), nullptr)}};
    } else {
      schema = std::visit(SchemaOf{field}, field.slot(nullptr));
      const ordered_json value = defaults == nullptr ? nullptr : write_value(field, defaults);
      if (!value.is_null()) schema["default"] = value;
    }
    schema["description"] = description(field);
    properties[field.key] = std::move(schema);
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

}  // namespace

std::string config_json_schema() {
  const Config defaults;
  ordered_json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                         {"title", "trainctl run config"},
                         {"description", config_table().doc}};
  schema.update(table_schema(config_table(), &defaults));
  schema["properties"]["$schema"] = {{"type", "string"},
                                     {"description", "This schema, for editors."}};
  schema["properties"]["optimizer"]["properties"]["groups"]["items"]["required"] = {"params"};
  return schema.dump(2) + "\n";
}

}  // namespace trainctl
