#include "trainctl/checkpoint/stored_checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/folder.h"
#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {
namespace {

int64_t modification_time(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mtime : 0;
}

// 0 for what vanishes meanwhile.
uint64_t bytes_below(const fs::path& folder) {
  uint64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entries(folder, error), end; !error && entries != end;
       entries.increment(error)) {
    std::error_code ignored;
    const bool counts = entries->is_regular_file(ignored) && !entries->is_symlink(ignored);
    const uintmax_t size = counts ? entries->file_size(ignored) : 0;
    total += ignored ? 0 : size;
  }
  return total;
}

std::optional<int64_t> step_of_name(const fs::path& folder) {
  const fs::path name =
      folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
  std::string_view text = name.native();
  if (!text.starts_with("step-")) return std::nullopt;
  text.remove_prefix(5);
  text = text.substr(0, text.find('.'));
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

// What the reading of a file threw, without the path: the folder is known where this is shown.
std::string without_folder(std::string text, const fs::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
    text.erase(at, prefix.size());
  }
  return text;
}

void read_state_extras(const std::string& json, StoredCheckpoint* out) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return;
  const auto version = root.find("trainctl_version");
  if (version != root.end() && version->is_string()) out->trainctl_version = *version;
  if (out->validation_loss) return;
  const auto loss = root.find("last_validation_loss");
  if (loss != root.end() && loss->is_number()) out->validation_loss = loss->get<double>();
}

// Headers of the safetensors files, and indexes against what is in the files.
void check_headers(StoredCheckpoint* out) {
  for (const std::string stem : {kModelStem, kOptimizerStem}) {
    const auto is_part = [&](const std::string& name) {
      return name.starts_with(stem + ".") || name.starts_with(stem + "-");
    };
    const bool sound = std::none_of(out->files.begin(), out->files.end(), [&](const auto& file) {
      return is_part(file.name) && !file.problem.empty();
    });
    if (!sound) continue;
    try {
      TensorFiles::open(out->path, stem);
    } catch (const UserError& error) {
      const std::string problem = without_folder(error.what(), out->path);
      const auto culprit = std::find_if(
          out->files.begin(), out->files.end(),
          [&](const auto& file) { return problem.find(file.name) != std::string::npos; });
      if (culprit == out->files.end()) {
        out->problems.push_back(problem);
      } else {
        culprit->problem = problem;
      }
    }
  }
}

void collect_problems(StoredCheckpoint* out) {
  for (const StoredFile& file : out->files) {
    if (file.problem.empty()) continue;
    const bool named = file.problem.find(file.name) != std::string::npos;
    out->problems.push_back(named ? file.problem : file.name + " " + file.problem);
  }
}

// Returns false when nothing more can be said.
bool read_manifest_into(StoredCheckpoint* out) {
  try {
    const Manifest manifest = read_manifest(out->path);
    out->format_version = manifest.format;
    out->run_id = manifest.run;
    out->validation_loss = manifest.validation_loss;
    const std::optional<int64_t> named = step_of_name(out->path);
    if (named && *named != manifest.step) {
      out->problems.push_back("manifest.json is of step " + std::to_string(manifest.step) +
                              ", not the one of the folder's name");
    }
    out->step = named.value_or(manifest.step);
    for (const auto& [name, written] : manifest.files) out->files.push_back({name, written, ""});
    return true;
  } catch (const UserError& error) {
    out->problems.push_back(without_folder(error.what(), out->path));
    return false;
  }
}

void compare_sizes(StoredCheckpoint* out) {
  for (StoredFile& file : out->files) {
    struct stat info {};
    if (::stat((out->path / file.name).c_str(), &info) != 0) {
      file.problem = std::string("cannot be read: ") + std::strerror(errno);
    } else if (!S_ISREG(info.st_mode)) {
      file.problem = "is not a regular file";
    } else if (static_cast<uint64_t>(info.st_size) != file.written.bytes) {
      file.problem = "has " + std::to_string(info.st_size) + " bytes instead of " +
                     std::to_string(file.written.bytes);
    }
  }
}

void find_strangers(StoredCheckpoint* out) {
  std::error_code error;
  for (fs::directory_iterator entries(out->path, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const bool known = name == kManifestFile || name == kCompleteMarker ||
                       std::any_of(out->files.begin(), out->files.end(),
                                   [&](const StoredFile& file) { return file.name == name; });
    if (!known) out->strangers.push_back(name);
  }
  std::sort(out->strangers.begin(), out->strangers.end());
}

}  // namespace

StoredCheckpoint look_at_checkpoint(const fs::path& step_dir) {
  StoredCheckpoint out;
  out.path = step_dir;
  out.step = step_of_name(step_dir).value_or(0);
  out.marked = has_marker(step_dir);
  out.bytes = bytes_below(step_dir);
  out.modified = modification_time(out.marked ? step_dir / kCompleteMarker : step_dir);
  if (!out.marked) {
    out.problems.emplace_back("incomplete: the marker COMPLETE is missing");
    return out;
  }
  if (!read_manifest_into(&out)) return out;
  compare_sizes(&out);
  check_headers(&out);
  find_strangers(&out);
  collect_problems(&out);
  try {
    read_state_extras(read_regular_file(step_dir / "state.json", ExitCode::kCheckpoint), &out);
  } catch (const UserError&) {  // among the problems already
  }
  return out;
}

void verify_stored_checkpoint(StoredCheckpoint* checkpoint) {
  for (StoredFile& file : checkpoint->files) {
    if (!file.problem.empty()) continue;
    try {
      verify_file(checkpoint->path / file.name, file.written, Verify::kChecksum);
      continue;
    } catch (const UserError& error) {
      file.problem = without_folder(error.what(), checkpoint->path);
    }
    const bool named = file.problem.find(file.name) != std::string::npos;
    checkpoint->problems.push_back(named ? file.problem : file.name + " " + file.problem);
  }
}

std::vector<StoredCheckpoint> look_at_checkpoints(const fs::path& checkpoints_dir) {
  std::vector<StoredCheckpoint> found;
  for (const auto& [step, path] : step_folders(checkpoints_dir)) {
    found.push_back(look_at_checkpoint(path));
    found.back().step = step;
  }
  return found;
}

std::vector<Leftover> list_leftovers(const fs::path& checkpoints_dir) {
  std::vector<Leftover> found;
  std::error_code error;
  for (fs::directory_iterator entries(checkpoints_dir, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const size_t dot = name.find('.');
    if (!name.starts_with("step-") || dot == std::string::npos) continue;
    const std::string kind = name.substr(dot + 1, name.find('-', dot) - dot - 1);
    // Set aside by a replacement that was interrupted: it stands for its step until that is there.
    std::error_code ignored;
    if (kind == "replaced" && !fs::exists(checkpoints_dir / name.substr(0, dot), ignored)) continue;
    found.push_back({entries->path(), kind, bytes_below(entries->path())});
  }
  std::sort(found.begin(), found.end(),
            [](const Leftover& a, const Leftover& b) { return a.path < b.path; });
  return found;
}

void remove_leftovers(const fs::path& checkpoints_dir) { sweep_leftovers(checkpoints_dir); }
void remove_checkpoint(const fs::path& step_dir) { remove_step(step_dir); }

std::string printable_tensor_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

}  // namespace trainctl
