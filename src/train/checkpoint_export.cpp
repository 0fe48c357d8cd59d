// trainctl checkpoint export-weights: a checkpoint's weights in the layout of the Hugging Face
// libraries, one file or several with an index.
#include <algorithm>
#include <cstdio>

#include "train/checkpoint_place.h"
#include "train/open_checkpoint.h"
#include "train/tensor_statistics.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/train/checkpoint_tools.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kIndexFile = "model.safetensors.index.json";

struct DtypeRow {
  const char* name;
  at::ScalarType type;
};
constexpr DtypeRow kExportTypes[] = {
    {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};

struct ExportPlace {
  fs::path folder;
  std::string single_file;  // set: one file of this name, and no index
};

bool is_weights_file(const std::string& name) {
  return name.starts_with("model") && (name.ends_with(".safetensors") || name == kIndexFile);
}

std::vector<fs::path> weights_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entries(folder, error), end; !error && entries != end;
       entries.increment(error)) {
    if (is_weights_file(entries->path().filename().string())) found.push_back(entries->path());
  }
  return found;
}

// Refuses what would be overwritten, before anything is read.
ExportPlace export_place(const ExportWeights& command) {
  const fs::path output = command.output;
  std::error_code ignored;
  const bool single = output.extension() == ".safetensors";
  if (single && fs::is_directory(output, ignored)) {
    throw usage_error("'" + command.output +
                      "' is a folder; name a file or a folder without "
                      ".safetensors at its end");
  }
  if (!single && fs::exists(output, ignored) && !fs::is_directory(output, ignored)) {
    throw usage_error("'" + command.output +
                      "' is a file; --output takes a folder or a file that ends in .safetensors");
  }
  const ExportPlace place{single ? output.parent_path() : output,
                          single ? output.filename().string() : ""};
  if (!place.folder.empty() && is_step_folder(place.folder)) {
    throw usage_error("'" + place.folder.string() +
                      "' is a checkpoint, which must stay as it is; choose another --output");
  }
  const std::vector<fs::path> there = single ? std::vector<fs::path>{} : weights_in(output);
  const std::string taken = single          ? (fs::exists(output, ignored) ? command.output : "")
                            : there.empty() ? ""
                                            : there[0].string();
  if (!taken.empty() && !command.force) {
    throw usage_error("'" + taken + "' is there already; choose another --output, or --force");
  }
  return place;
}

at::Tensor converted(const at::Tensor& tensor, const std::string& dtype) {
  const auto* row = std::find_if(std::begin(kExportTypes), std::end(kExportTypes),
                                 [&](const DtypeRow& one) { return dtype == one.name; });
  const bool keeps = row == std::end(kExportTypes) || !tensor.is_floating_point();
  return keeps ? tensor : tensor.to(row->type);
}

// Values beyond fp16's range become infinite: the user must know.
void warn_of_overflow(const std::string& name, const at::Tensor& before, const at::Tensor& after) {
  if (after.scalar_type() == before.scalar_type() || !after.is_floating_point()) return;
  const int64_t lost = statistics_of(after).infinite_count - statistics_of(before).infinite_count;
  if (lost > 0) {
    log_warning(std::to_string(lost) + " values of " + printable_tensor_name(name) +
                " are too large for the type asked for and became infinite; use --dtype bf16");
  }
}

uint64_t bytes_as(const at::Tensor& tensor, const std::string& dtype) {
  const auto element = converted(tensor.reshape({-1}).narrow(0, 0, 0), dtype).element_size();
  return static_cast<uint64_t>(tensor.numel()) * static_cast<uint64_t>(element);
}

// In order of names; a tensor is never split, so one that is larger has a file of its own.
std::vector<std::vector<std::string>> split_names(const TensorFiles& tensors,
                                                  const ExportWeights& command) {
  std::vector<std::vector<std::string>> shards(1);
  uint64_t filled = 0;
  for (const std::string& name : tensors.names()) {
    const uint64_t bytes = bytes_as(tensors.tensor(name), command.dtype);
    if (command.shard_bytes > 0 && !shards.back().empty() && filled + bytes > command.shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(name);
    filled += bytes;
  }
  return shards;
}

std::string shard_file(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

void create_output_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) {
    throw usage_error("cannot make the folder '" + folder.string() + "': " + error.message() +
                      "; choose another --output");
  }
}

struct Exported {
  std::vector<fs::path> files;
  uint64_t bytes = 0;
  size_t tensors = 0;
};

// The index comes last: without it a reader takes no half-written set for whole.
Exported write_weights(const TensorFiles& tensors, const ExportWeights& command,
                       const ExportPlace& place) {
  const auto shards = split_names(tensors, command);
  Exported out;
  Json map = Json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        place.single_file.empty() ? shard_file(i, shards.size()) : place.single_file;
    std::vector<TensorEntry> entries;
    for (const std::string& name : shards[i]) {
      const at::Tensor stored = tensors.tensor(name);
      entries.push_back({name, converted(stored, command.dtype)});
      warn_of_overflow(name, stored, entries.back().tensor);
      map[name] = file;
    }
    total += data_bytes(entries);
    out.tensors += entries.size();
    out.files.push_back(place.folder / file);
    out.bytes += write_safetensors(out.files.back(), entries, {{"format", "pt"}}).bytes;
  }
  if (shards.size() > 1) {
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    out.files.push_back(place.folder / kIndexFile);
    write_file_atomic(out.files.back(), json_text(index), ExitCode::kCheckpoint);
  }
  return out;
}

// An earlier export's other files would be read with the new ones.
void remove_earlier(const ExportPlace& place, const std::vector<fs::path>& written) {
  if (!place.single_file.empty()) return;
  for (const fs::path& path : weights_in(place.folder)) {
    std::error_code error;
    const bool is_new = std::find(written.begin(), written.end(), path) != written.end();
    if (!is_new) fs::remove(path, error);
    if (error) log_warning("cannot remove '" + path.string() + "': " + error.message());
  }
}

}  // namespace

ExitCode export_weights_command(const ExportWeights& command, const RunHost& host) {
  const ExportPlace place = export_place(command);
  const StoredCheckpoint checkpoint = open_stored(command.source, true);
  const TensorFiles tensors = TensorFiles::open(checkpoint.path, kModelStem);
  create_output_folder(place.folder);
  const Exported out = write_weights(tensors, command, place);
  remove_earlier(place, out.files);
  if (command.json) {
    Json json = {{"checkpoint", checkpoint.path.string()},
                 {"step", checkpoint.step},
                 {"tensors", out.tensors},
                 {"bytes", out.bytes},
                 {"files", Json::array()}};
    for (const fs::path& file : out.files) json["files"].push_back(file.string());
    host.print(json_text(json));
    return ExitCode::kOk;
  }
  host.print("wrote " + count_text(out.tensors, "tensor") + " of " + checkpoint.path.string() +
             ", " + human_bytes(out.bytes) + ":\n");
  for (const fs::path& file : out.files) host.print("  " + file.string() + "\n");
  return ExitCode::kOk;
}

}  // namespace trainctl
