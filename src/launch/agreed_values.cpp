#include "trainctl/launch/agreed_values.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainctl/base/files.h"

namespace trainctl {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestValue = 200;
constexpr size_t kShownOfLong = 100;
constexpr size_t kMostShown = 5;
constexpr const char* kNotGiven = "(not given)";

std::string checksum_of(const std::string& text) {
  return to_hex(checksum(std::as_bytes(std::span(text))));
}

std::string short_value(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() <= kLongestValue) return text;
  return text.substr(0, kShownOfLong) + "… (checksum " + checksum_of(text) + ")";
}

void add_values(const Json& value, const std::string& path, AgreedValues* values) {
  if (!value.is_object() || value.empty()) {
    values->emplace_back("config key " + path, short_value(value));
    return;
  }
  for (const auto& [key, member] : value.items())
    add_values(member, path.empty() ? key : path + "." + key, values);
}

std::string value_of(const AgreedValues& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == values.end() ? kNotGiven : found->second;
}

}  // namespace

AgreedValues agreed_config(const std::string& config_json) {
  AgreedValues values;
  add_values(Json::parse(config_json), "", &values);
  if (values.size() > kMostAgreedValues / 2)
    return {{"config", "one with checksum " + checksum_of(config_json)}};
  return values;
}

std::string difference_text(const AgreedValues& here, const std::string& here_host,
                            const AgreedValues& there, const std::string& there_host) {
  AgreedValues all = here;
  for (const auto& entry : there) {
    if (value_of(here, entry.first) == kNotGiven) all.push_back(entry);
  }
  std::string text;
  size_t count = 0;
  for (const auto& [name, ignored] : all) {
    const std::string ours = value_of(here, name), theirs = value_of(there, name);
    if (ours == theirs || ++count > kMostShown) continue;
    text += (text.empty() ? "" : "; ") + name + ": it is " + ours + " on " + here_host + " and " +
            theirs + " on " + there_host;
  }
  return count > kMostShown ? text + "; and on " + std::to_string(count - kMostShown) + " more"
                            : text;
}

}  // namespace trainctl
