#include <charconv>
#include <cmath>

#include "config/duration.h"
#include "config/value.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

std::string quoted_names(const EnumNames& names) {
  std::vector<std::string> quoted;
  for (const EnumValue& value : names.values)
    quoted.push_back(std::string("\"") + value.name + "\"");
  return join(quoted, ", ");
}

std::string range_text(const Field& f) {
  const auto low = [&] { return number_text(*f.minimum); };
  const auto high = [&] { return number_text(*f.maximum); };
  if (f.minimum && f.maximum && !f.minimum_excluded && !f.maximum_excluded) {
    return " from " + low() + " to " + high();
  }
  std::string text;
  if (f.minimum) text += (f.minimum_excluded ? " above " : " of at least ") + low();
  if (f.maximum) {
    text += (text.empty() ? "" : " and") +
            std::string(f.maximum_excluded ? " below " : " of at most ") + high();
  }
  return text;
}

std::string strings_text(const Field& field) {
  if (field.choices.empty()) return "an array of strings";
  const std::vector<std::string> names(field.choices.begin(), field.choices.end());
  return "an array of " + join(names, ", ");
}

}  // namespace

std::string number_text(double number) {
  if (number == std::floor(number) && std::fabs(number) < 1e16) {
    return std::to_string(static_cast<int64_t>(number));
  }
  char digits[64];
  const bool plain = std::fabs(number) >= 1e-4 && std::fabs(number) < 1e16;
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  return {digits, std::to_chars(digits, digits + sizeof digits, number, format).ptr};
}

std::string expectation(const Field& field) {
  struct Text {
    const Field& f;
    std::string operator()(bool*) const { return "true or false"; }
    std::string operator()(Toggle*) const { return "true, false or \"auto\""; }
    std::string operator()(int64_t*) const { return "an integer" + range_text(f); }
    std::string operator()(std::optional<int64_t>*) const { return "an integer" + range_text(f); }
    std::string operator()(std::optional<double>*) const { return "a number" + range_text(f); }
    std::string operator()(double*) const {
      return f.duration ? "a number of seconds or a time such as \"90s\", \"10m\" or \"2h\""
                        : "a number" + range_text(f);
    }
    std::string operator()(std::string*) const { return "a string"; }
    std::string operator()(Interval*) const {
      return "a number of steps or a time such as \"90s\", \"10m\" or \"2h\"";
    }
    std::string operator()(std::vector<std::string>*) const { return strings_text(f); }
    std::string operator()(std::vector<double>*) const {
      return "an array of " + (f.length ? std::to_string(*f.length) + " " : std::string()) +
             "numbers" + range_text(f);
    }
    std::string operator()(const EnumSlot& slot) const {
      return "one of " + quoted_names(*slot.names);
    }
  };
  return std::visit(Text{field}, field.slot(nullptr));
}

ordered_json write_value(const Field& field, const void* owner) {
  struct Writer {
    const Field& field;
    ordered_json operator()(const bool* at) const { return *at; }
    ordered_json operator()(const int64_t* at) const { return *at; }
    ordered_json operator()(const std::string* at) const { return *at; }
    ordered_json operator()(const std::vector<std::string>* at) const { return *at; }
    ordered_json operator()(const std::vector<double>* at) const { return *at; }
    ordered_json operator()(const double* at) const {
      if (field.duration && *at != 0) return format_duration(*at);
      return *at;
    }
    ordered_json operator()(const Interval* at) const {
      if (at->steps == 0 && at->seconds != 0) return format_duration(at->seconds);
      return at->steps;
    }
    ordered_json operator()(const Toggle* at) const {
      if (*at == Toggle::kAuto) return "auto";
      return *at == Toggle::kOn;
    }
    ordered_json operator()(const std::optional<int64_t>* at) const {
      return *at ? ordered_json(**at) : ordered_json(nullptr);
    }
    ordered_json operator()(const std::optional<double>* at) const {
      return *at ? ordered_json(**at) : ordered_json(nullptr);
    }
    ordered_json operator()(const EnumSlot& slot) const {
      return slot.names->name_of(slot.get(slot.at));
    }
  };
  return std::visit(Writer{field}, field.slot_in(owner));
}

ordered_json write_table(const Table& table, const void* owner, const Config& config) {
  ordered_json object = ordered_json::object();
  for (const Field& field : table.fields) {
    void* member = field.member(const_cast<void*>(owner));
    if (field.is_section()) {
      ordered_json section = write_table(field.section(), member, config);
      if (!section.empty()) object[field.key] = std::move(section);
    } else if (field.is_list()) {
      ordered_json list = ordered_json::array();
      for (size_t i = 0; i < field.list.size(member); ++i) {
        list.push_back(write_table(field.list.table(), field.list.at(member, i), config));
      }
      object[field.key] = std::move(list);
    } else if (field.applies(config)) {
      ordered_json value = write_value(field, owner);
      if (!value.is_null()) object[field.key] = std::move(value);
    }
  }
  return object;
}

}  // namespace trainctl
