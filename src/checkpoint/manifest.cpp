#include "checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "trainctl/base/version.h"

namespace trainctl {
namespace {

// Strictly: the JSON library would turn -1 or 1.5 into some other number.
uint64_t count_at(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = object.at(key);
  if (!value.is_number_unsigned()) {
    throw std::invalid_argument(std::string(key) + " is not a whole number from 0 on");
  }
  return value.get<uint64_t>();
}

uint64_t parse_hex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    throw std::invalid_argument("xxh3 '" + text.substr(0, 40) + "' is not 16 hexadecimal digits");
  }
  return value;
}

Manifest read_manifest(const nlohmann::json& root) {
  const auto format = static_cast<int64_t>(count_at(root, "format_version"));
  if (format != kCheckpointFormat) {
    throw std::invalid_argument(
        "format_version " + std::to_string(format) + " is not the one this trainctl reads (" +
        std::to_string(kCheckpointFormat) + "); use the trainctl that wrote it");
  }
  Manifest manifest;
  manifest.step = static_cast<int64_t>(count_at(root, "step"));
  for (const nlohmann::json& entry : root.at("files")) {
    const auto name = entry.at("file").get<std::string>();
    // Names are joined to the folder's path: nothing may lead out of it.
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      throw std::invalid_argument("'" + name + "' is not the name of a file in this folder");
    }
    manifest.files[name] = {count_at(entry, "bytes"),
                            parse_hex(entry.at("xxh3").get<std::string>())};
  }
  return manifest;
}

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  nlohmann::ordered_json root;
  root["format_version"] = kCheckpointFormat;
  root["step"] = manifest.step;
  root["trainctl_version"] = kVersion;
  root["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, written] : manifest.files) {
    root["files"].push_back(
        {{"file", name}, {"bytes", written.bytes}, {"xxh3", to_hex(written.xxh3)}});
  }
  return root.dump(2) + "\n";
}

Manifest parse_manifest(const std::string& json, const fs::path& path) {
  try {
    return read_manifest(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw checkpoint_error(path.string() + " is not a manifest: " + error.what());
  } catch (const std::invalid_argument& error) {
    throw checkpoint_error(path.string() + ": " + error.what());
  }
}

}  // namespace trainctl
