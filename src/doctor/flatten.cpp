#include "doctor/flatten.h"

#include <algorithm>

namespace trainctl::doctor {
namespace {

std::string leaf_text(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::map<std::string, std::string> flatten(const Json& value, const std::string& path) {
  std::map<std::string, std::string> out;
  const auto below = [&](const std::string& name, const Json& child) {
    out.merge(flatten(child, path.empty() ? name : path + "." + name));
  };
  if (value.is_object()) {
    for (const auto& [name, child] : value.items()) below(name, child);
  } else if (value.is_array() && std::any_of(value.begin(), value.end(), [](const Json& child) {
               return child.is_structured();
             })) {
    for (size_t i = 0; i < value.size(); ++i) below(std::to_string(i), value[i]);
  } else if (value.is_array()) {
    std::string text;
    for (const Json& child : value) text += (text.empty() ? "" : " ") + leaf_text(child);
    out[path] = text;
  } else {
    out[path] = leaf_text(value);
  }
  return out;
}

}  // namespace trainctl::doctor
