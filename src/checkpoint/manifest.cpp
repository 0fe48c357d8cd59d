#include "trainctl/checkpoint/manifest.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/folder.h"
#include "checkpoint/index_file.h"
#include "checkpoint/mapped_file.h"
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

void read_origin(const nlohmann::json& root, Manifest* manifest) {
  manifest->run = root.at("run").get<std::string>();
  const nlohmann::json& loss = root.at("validation_loss");
  if (!loss.is_null()) manifest->validation_loss = loss.get<double>();
}

Manifest read_fields(const nlohmann::json& root) {
  const auto format = static_cast<int64_t>(count_at(root, "format_version"));
  if (format < kOldestCheckpointFormat || format > kCheckpointFormat) {
    throw std::invalid_argument(
        "format_version " + std::to_string(format) + " is not one that this trainctl reads (" +
        std::to_string(kOldestCheckpointFormat) + " to " + std::to_string(kCheckpointFormat) +
        "); use the trainctl that wrote it");
  }
  Manifest manifest;
  manifest.format = format;
  manifest.step = static_cast<int64_t>(count_at(root, "step"));
  if (format >= 2) read_origin(root, &manifest);
  for (const nlohmann::json& entry : root.at("files")) {
    const auto name = entry.at("file").get<std::string>();
    // Names are joined to the folder's path: nothing may lead out of it.
    if (!is_plain_file_name(name)) {
      throw std::invalid_argument("'" + name + "' is not the name of a file in this folder");
    }
    const WrittenFile written = {count_at(entry, "bytes"),
                                 parse_hex(entry.at("xxh3").get<std::string>())};
    if (!manifest.files.emplace(name, written).second) {
      throw std::invalid_argument("'" + name + "' is listed twice");
    }
  }
  return manifest;
}

}  // namespace

uint64_t Manifest::bytes() const {
  uint64_t total = 0;
  for (const auto& [name, written] : files) total += written.bytes;
  return total;
}

std::string manifest_to_json(const Manifest& manifest) {
  nlohmann::ordered_json root;
  root["format_version"] = kCheckpointFormat;
  root["step"] = manifest.step;
  root["trainctl_version"] = kVersion;
  root["run"] = manifest.run;
  root["validation_loss"] = nullptr;
  if (manifest.validation_loss && std::isfinite(*manifest.validation_loss)) {
    root["validation_loss"] = *manifest.validation_loss;
  }
  root["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, written] : manifest.files) {
    root["files"].push_back(
        {{"file", name}, {"bytes", written.bytes}, {"xxh3", to_hex(written.xxh3)}});
  }
  return root.dump(2) + "\n";
}

Manifest parse_manifest(const std::string& json, const fs::path& path) {
  try {
    return read_fields(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw checkpoint_error(path.string() + " is not a manifest: " + error.what());
  } catch (const std::invalid_argument& error) {
    throw checkpoint_error(path.string() + ": " + error.what());
  }
}

Manifest read_manifest(const fs::path& step_dir) {
  const fs::path path = step_dir / kManifestFile;
  const std::string json = read_small_file(path);
  const std::string marker = read_small_file(step_dir / kCompleteMarker);
  if (marker != to_hex(checksum(std::as_bytes(std::span(json)))) + "\n") {
    throw checkpoint_error(path.string() +
                           " does not have the checksum that COMPLETE gives: it is damaged");
  }
  return parse_manifest(json, path);
}

}  // namespace trainctl
