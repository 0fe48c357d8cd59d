#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "config/duration.h"
#include "config/value.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr double kExactIntegers = 9007199254740992;  // 2^53: above it a float is no exact integer

std::string refuse(const std::string& wanted, const JsonNode& node, const std::string& cure = "") {
  return "must be " + wanted + ", not " + describe(node) + (cure.empty() ? "" : "; " + cure);
}

bool reads_as_number(const std::string& text) {
  double ignored = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(ignored);
}

// The cure for the usual confusions of type.
std::string cure_for(const JsonNode& node, bool number_wanted) {
  if (node.kind == JsonKind::kNull) return "leave the key out to get its default";
  if (node.kind == JsonKind::kString && number_wanted && reads_as_number(node.text)) {
    return "write " + node.text + " without quotes";
  }
  return "";
}

bool in_range(const Field& field, double value) {
  if (field.minimum &&
      (field.minimum_excluded ? value <= *field.minimum : value < *field.minimum)) {
    return false;
  }
  return !field.maximum ||
         !(field.maximum_excluded ? value >= *field.maximum : value > *field.maximum);
}

std::string read_integer(const Field& field, const JsonNode& node, int64_t* target) {
  const std::string wanted = expectation(field);
  if (node.kind == JsonKind::kNumber) {
    if (node.number != std::floor(node.number)) return "must be a whole number, not " + node.text;
    if (std::fabs(node.number) > kExactIntegers) {
      return "must be " + wanted + "; " + node.text + " is too large";
    }
  } else if (node.kind != JsonKind::kInteger) {
    return refuse(wanted, node, cure_for(node, true));
  }
  if (node.too_large) return "must be " + wanted + "; " + node.text + " does not fit in 64 bits";
  if (!in_range(field, node.number)) return "must be " + wanted + ", not " + node.text;
  *target = node.kind == JsonKind::kInteger ? node.integer : static_cast<int64_t>(node.number);
  return "";
}

std::string read_number(const Field& field, const JsonNode& node, double* target) {
  const std::string wanted = expectation(field);
  if (field.duration && node.kind == JsonKind::kString) {
    const auto seconds = parse_duration(node.text);
    if (!seconds) return refuse(wanted, node, cure_for(node, true));
    if (!in_range(field, *seconds)) return "must be " + wanted + ", not \"" + node.text + "\"";
    *target = *seconds;
    return "";
  }
  if (node.kind != JsonKind::kInteger && node.kind != JsonKind::kNumber) {
    return refuse(wanted, node, cure_for(node, true));
  }
  if (!in_range(field, node.number)) return "must be " + wanted + ", not " + node.text;
  *target = node.number;
  return "";
}

std::string check_device(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return "";
  if (text.starts_with("cuda:") && text.size() > 5 && text.size() <= 8 &&
      text.find_first_not_of("0123456789", 5) == std::string::npos) {
    return "";
  }
  const auto near = nearest(text, {"auto", "cpu", "cuda"});
  return "must be \"auto\", \"cpu\", \"cuda\" or \"cuda:N\", not \"" + text + "\"" +
         (text == "gpu" ? "; write \"cuda\""
          : near        ? "; did you mean \"" + *near + "\"?"
                        : "");
}

std::string check_string(const Field& field, const std::string& text) {
  if (text.find('\0') != std::string::npos) return "must not hold the character U+0000";
  switch (field.string_rule) {
    case StringRule::kAny:
      return "";
    case StringRule::kNotEmpty:
    case StringRule::kPath:
      return text.empty() ? "must not be an empty string" : "";
    case StringRule::kDevice:
      return check_device(text);
    case StringRule::kName:
      break;
  }
  if (text.empty()) return "must not be an empty string";
  if (text == "." || text == ".." || text.find('/') != std::string::npos) {
    return "must be the name of one folder, not \"" + text + "\"; put folders into run.output_dir";
  }
  if (text.size() > 200) return "must not be longer than 200 bytes";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return "must not hold control characters: it names a folder";
    }
  }
  return "";
}

std::string choose(const std::string& text, const std::vector<std::string>& names) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto near = nearest(lower, names);
  return "\"" + text + "\" is not one of " + join(names, ", ") +
         (near ? "; did you mean \"" + *near + "\"?" : "");
}

std::string read_string(const Field& field, const JsonNode& node, std::string* target) {
  if (node.kind != JsonKind::kString) {
    const bool scalar = node.kind == JsonKind::kInteger || node.kind == JsonKind::kNumber;
    return refuse(expectation(field), node,
                  scalar ? "write \"" + node.text + "\" in quotes" : cure_for(node, false));
  }
  std::string wrong = check_string(field, node.text);
  if (wrong.empty()) *target = node.text;
  return wrong;
}

std::string read_enum(const Field& field, const JsonNode& node, const EnumSlot& slot) {
  if (node.kind != JsonKind::kString)
    return refuse(expectation(field), node, cure_for(node, false));
  std::vector<std::string> names;
  for (const EnumValue& value : slot.names->values) {
    if (node.text == value.name) {
      slot.set(slot.at, value.value);
      return "";
    }
    names.emplace_back(value.name);
  }
  for (const RefusedValue& value : slot.names->refused) {
    if (node.text == value.name) {
      return "\"" + node.text + "\" " + value.why +
             (value.later ? "; this one has " + join(names, ", ") : "");
    }
  }
  return choose(node.text, names);
}

std::string read_bool(const Field& field, const JsonNode& node, bool* target) {
  if (node.kind == JsonKind::kBool) {
    *target = node.boolean;
    return "";
  }
  std::string cure = cure_for(node, false);
  if (node.text == "true" || node.text == "false") cure = "write " + node.text + " without quotes";
  if (node.kind == JsonKind::kInteger && (node.text == "0" || node.text == "1")) {
    cure = node.text == "1" ? "write true" : "write false";
  }
  return refuse(expectation(field), node, cure);
}

std::string read_toggle(const Field& field, const JsonNode& node, Toggle* target) {
  if (node.kind == JsonKind::kString && node.text == "auto") {
    *target = Toggle::kAuto;
    return "";
  }
  bool on = false;
  std::string wrong = read_bool(field, node, &on);
  if (wrong.empty()) *target = on ? Toggle::kOn : Toggle::kOff;
  return wrong;
}

std::string read_interval(const Field& field, const JsonNode& node, Interval* target) {
  if (node.kind == JsonKind::kString) {
    const auto seconds = parse_duration(node.text);
    if (!seconds) return refuse(expectation(field), node, cure_for(node, true));
    if (*seconds > 1e10) return "\"" + node.text + "\" is longer than any run";
    *target = {0, *seconds};
    return "";
  }
  int64_t steps = 0;
  std::string wrong = read_integer(field, node, &steps);
  if (wrong.empty() && (steps < 0 || steps > 1000000000000000)) {
    wrong = "must be " + expectation(field) + ", not " + node.text;
  }
  if (wrong.empty()) *target = {steps, 0};
  return wrong;
}

// Runs `read_one` on every element and says which one is wrong.
template <class T, class ReadOne>
std::string read_list(const Field& field, const JsonNode& node, std::vector<T>* target,
                      ReadOne read_one) {
  if (node.kind != JsonKind::kArray) {
    const bool one_string = node.kind == JsonKind::kString && std::is_same_v<T, std::string>;
    return refuse(expectation(field), node,
                  one_string ? "write [\"" + node.text + "\"]" : cure_for(node, false));
  }
  if (field.length && node.items.size() != *field.length) {
    return "must have " + std::to_string(*field.length) + " elements, not " +
           std::to_string(node.items.size());
  }
  std::vector<T> values;
  for (const JsonNode& item : node.items) {
    T value{};
    const std::string wrong = read_one(item, &value);
    if (!wrong.empty()) return "element " + std::to_string(values.size() + 1) + " " + wrong;
    values.push_back(std::move(value));
  }
  *target = std::move(values);
  return "";
}

std::string read_strings(const Field& field, const JsonNode& node,
                         std::vector<std::string>* target) {
  const std::vector<std::string> names(field.choices.begin(), field.choices.end());
  Field element = field;
  element.length.reset();
  return read_list(field, node, target, [&](const JsonNode& item, std::string* value) {
    if (item.kind != JsonKind::kString) return refuse("a string", item, cure_for(item, false));
    if (!names.empty() && std::find(names.begin(), names.end(), item.text) == names.end()) {
      return choose(item.text, names);
    }
    *value = item.text;
    return check_string(field, item.text);
  });
}

std::string read_numbers(const Field& field, const JsonNode& node, std::vector<double>* target) {
  Field element;
  element.minimum = field.minimum;
  element.maximum = field.maximum;
  element.minimum_excluded = field.minimum_excluded;
  element.maximum_excluded = field.maximum_excluded;
  element.slot = [](void* at) -> Slot { return static_cast<double*>(at); };
  element.member = [](void* owner) { return owner; };
  return read_list(field, node, target, [&](const JsonNode& item, double* value) {
    return read_number(element, item, value);
  });
}

}  // namespace

std::string read_value(const Field& field, const JsonNode& node, void* owner) {
  struct Reader {
    const Field& field;
    const JsonNode& node;
    std::string operator()(bool* at) const { return read_bool(field, node, at); }
    std::string operator()(int64_t* at) const { return read_integer(field, node, at); }
    std::string operator()(double* at) const { return read_number(field, node, at); }
    std::string operator()(std::string* at) const { return read_string(field, node, at); }
    std::string operator()(Interval* at) const { return read_interval(field, node, at); }
    std::string operator()(Toggle* at) const { return read_toggle(field, node, at); }
    std::string operator()(const EnumSlot& at) const { return read_enum(field, node, at); }
    std::string operator()(std::vector<std::string>* at) const {
      return read_strings(field, node, at);
    }
    std::string operator()(std::vector<double>* at) const { return read_numbers(field, node, at); }
    std::string operator()(std::optional<int64_t>* at) const {
      int64_t value = 0;
      std::string wrong = read_integer(field, node, &value);
      if (wrong.empty()) *at = value;
      return wrong;
    }
    std::string operator()(std::optional<double>* at) const {
      double value = 0;
      std::string wrong = read_number(field, node, &value);
      if (wrong.empty()) *at = value;
      return wrong;
    }
  };
  return std::visit(Reader{field, node}, field.slot_in(owner));
}

}  // namespace trainctl
