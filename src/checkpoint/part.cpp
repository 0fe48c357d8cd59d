#include "checkpoint/part.h"

#include <sys/statvfs.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "checkpoint/folder.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

std::vector<PlannedTensor> planned(const std::vector<TensorEntry>& tensors) {
  std::vector<PlannedTensor> out;
  out.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) out.push_back({entry.name, entry.tensor.nbytes()});
  return out;
}

}  // namespace

std::string part_to_json(const Part& part) {
  nlohmann::json json = {{"error", part.error}, {"files", nlohmann::json::object()}};
  for (const auto& [name, written] : part.files) {
    json["files"][name] = {written.bytes, written.xxh3};
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Part part_from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  Part part;
  part.error = json.at("error").get<std::string>();
  for (const auto& [name, written] : json.at("files").items()) {
    part.files[name] = {written.at(0).get<uint64_t>(), written.at(1).get<uint64_t>()};
  }
  return part;
}

std::vector<TensorSet> tensor_sets(const CheckpointContent& content) {
  return {{kModelStem, planned(content.model)}, {kOptimizerStem, planned(content.optimizer)}};
}

std::vector<TensorEntry> owned_tensors(const CheckpointContent& content, const ShardPlan& plan,
                                       int64_t rank) {
  std::vector<TensorEntry> owned;
  const std::vector<TensorEntry>* sets[] = {&content.model, &content.optimizer};
  for (size_t i = 0; i < plan.sets.size(); ++i) {
    // Shards name the tensors in the order of the set.
    auto next = sets[i]->begin();
    for (const Shard& shard : plan.sets[i].shards) {
      const auto end = next + static_cast<std::ptrdiff_t>(shard.tensors.size());
      if (shard.owner == rank) owned.insert(owned.end(), next, end);
      next = end;
    }
  }
  return owned;
}

std::map<std::string, WrittenFile> write_part(const fs::path& folder, const ShardPlan& plan,
                                              int64_t rank, const std::vector<TensorEntry>& tensors,
                                              const std::atomic<bool>* cancelled) {
  // The Hugging Face libraries ask for it.
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::map<std::string, WrittenFile> files;
  auto next = tensors.begin();
  for (const ShardedSet& set : plan.sets) {
    for (const Shard& shard : set.shards) {
      if (shard.owner != rank) continue;
      const auto end = next + static_cast<std::ptrdiff_t>(shard.tensors.size());
      files[shard.file] = write_safetensors(folder / shard.file, {next, end}, metadata,
                                            {Placement::kDirect, cancelled});
      next = end;
    }
  }
  return files;
}

void require_space(const fs::path& folder, int64_t step, uint64_t bytes) {
  constexpr uint64_t kHeadersAndBlocks = 64 << 10;
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return;
  const uint64_t available = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (available >= bytes + kHeadersAndBlocks) return;
  throw checkpoint_error(
      folder.string() + ": the checkpoint of step " + std::to_string(step) + " needs " +
      human_bytes(bytes + kHeadersAndBlocks) + ", but only " + human_bytes(available) +
      " are free: No space left on device; free some space, lower checkpoint.keep_latest, or set "
      "run.output_dir elsewhere");
}

}  // namespace trainctl
