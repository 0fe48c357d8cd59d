#include "checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "trainctl/base/version.h"

namespace trainctl {
namespace {

uint64_t parse_hex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    throw std::invalid_argument("xxh3 '" + text.substr(0, 40) + "' is not 16 hexadecimal digits");
  }
  return value;
}

Manifest read_manifest(const nlohmann::json& root) {
  const int64_t format = root.at("format_version").get<int64_t>();
  if (format != kCheckpointFormat) {
    throw std::invalid_argument(
        "format_version " + std::to_string(format) + " is not the one this trainctl reads (" +
        std::to_string(kCheckpointFormat) + "); use the trainctl that wrote it");
  }
  Manifest manifest;
  manifest.step = root.at("step").get<int64_t>();
  for (const nlohmann::json& entry : root.at("files")) {
    const auto name = entry.at("file").get<std::string>();
    // Names are joined to the folder's path: nothing may lead out of it.
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      throw std::invalid_argument("'" + name + "' is not the name of a file in this folder");
    }
    manifest.files[name] = {entry.at("bytes").get<uint64_t>(),
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
