// Any bytes as the index of a set of shards, and as the manifest of a checkpoint: refused with an
// error for the user, or read into names that cannot lead out of their folder. What was read is
// read the same again.
#include <cstdlib>
#include <string>

#include "checkpoint/index_file.h"
#include "trainctl/checkpoint/manifest.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_inside(const std::string& name) {
  require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
          name.find('\0') == std::string::npos);
}

void read_as_index(const std::string& text) {
  for (const auto& [tensor, file] : trainctl::parse_index(text, "x.index.json"))
    require_inside(file);
}

void read_as_manifest(const std::string& text) {
  const trainctl::Manifest manifest = trainctl::parse_manifest(text, "manifest.json");
  for (const auto& [name, written] : manifest.files) require_inside(name);
  const trainctl::Manifest again =
      trainctl::parse_manifest(trainctl::manifest_to_json(manifest), "manifest.json");
  require(again.step == manifest.step && again.run == manifest.run &&
          again.files.size() == manifest.files.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {read_as_index, read_as_manifest}) {
    try {
      read(text);
    } catch (const trainctl::UserError& error) {
      require(error.code() == trainctl::ExitCode::kCheckpoint);
    }
  }
  return 0;
}
