#include "checkpoint/index_file.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/safetensors_header_sax.h"

namespace trainctl {
namespace {

using Json = nlohmann::json;

// The JSON library would let the last of two entries count.
class NoDuplicates {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!keys_.back().emplace(key, true).second) {
        throw std::invalid_argument("the key " + printable_name(key) + " stands twice");
      }
    }
    if (depth > 8) throw std::invalid_argument("it is nested too deeply");
    return true;
  }

 private:
  std::vector<std::map<std::string, bool>> keys_;
};

}  // namespace

std::string index_file_name(const std::string& stem) { return stem + ".safetensors.index.json"; }

std::string index_to_json(const ShardedSet& set) {
  nlohmann::ordered_json root;
  root["metadata"]["total_size"] = set.bytes;
  std::map<std::string, std::string> files;  // sorted by name, as the Python libraries write it
  for (const Shard& shard : set.shards) {
    for (const std::string& name : shard.tensors) files[name] = shard.file;
  }
  root["weight_map"] = files;
  return root.dump(2) + "\n";
}

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::map<std::string, std::string> parse_index(const std::string& json, const fs::path& path) {
  const auto refuse = [&](const std::string& reason) {
    throw checkpoint_error(path.string() + " is not an index of shards: " + reason);
  };
  std::map<std::string, std::string> files;
  try {
    const Json root = Json::parse(
        json, [check = NoDuplicates()](int depth, Json::parse_event_t event, Json& parsed) mutable {
          return check(depth, event, parsed);
        });
    const Json& map = root.at("weight_map");
    if (!map.is_object() || map.empty()) refuse("weight_map is not an object with tensors");
    for (const auto& [tensor, file] : map.items()) {
      const auto name = file.get<std::string>();
      if (!is_plain_file_name(name)) {
        refuse(printable_name(name) + " is not the name of a file in this folder");
      }
      files[tensor] = name;
    }
  } catch (const Json::exception& error) {
    refuse(error.what());
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return files;
}

}  // namespace trainctl
