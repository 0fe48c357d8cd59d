#include "trainctl/checkpoint/tensor_files.h"

#include <set>

#include "checkpoint/index_file.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors_header_sax.h"
#include "trainctl/base/strings.h"

namespace trainctl {

TensorFiles::TensorFiles(SafetensorsFile file) : where_(file.path().string()) {
  add(std::move(file));
}

void TensorFiles::add(SafetensorsFile file) {
  for (const std::string& name : file.names()) {
    const auto [at, added] = owner_.emplace(name, files_.size());
    if (!added) {
      throw checkpoint_error(file.path().string() + " holds tensor " + printable_name(name) +
                             ", which " + files_[at->second].path().filename().string() +
                             " holds too");
    }
  }
  files_.push_back(std::move(file));
}

TensorFiles TensorFiles::open(const fs::path& folder, const std::string& stem) {
  const fs::path single = folder / (stem + ".safetensors");
  const fs::path index = folder / index_file_name(stem);
  std::error_code ignored;
  if (!fs::exists(index, ignored) || fs::exists(single, ignored)) return SafetensorsFile(single);

  const std::map<std::string, std::string> wanted = parse_index(read_small_file(index), index);
  std::set<std::string> shards;
  for (const auto& [tensor, file] : wanted) shards.insert(file);
  TensorFiles set;
  set.where_ = index.string();
  for (const std::string& shard : shards) set.add(SafetensorsFile(folder / shard));
  for (const auto& [tensor, file] : wanted) {
    const auto found = set.owner_.find(tensor);
    if (found == set.owner_.end() || set.files_[found->second].path().filename() != file) {
      throw checkpoint_error(index.string() + " says that " + file + " holds tensor " +
                             printable_name(tensor) + ", but it does not");
    }
  }
  for (const auto& [tensor, owner] : set.owner_) {
    if (!wanted.contains(tensor)) {
      throw checkpoint_error(set.files_[owner].path().string() + " holds tensor " +
                             printable_name(tensor) + ", which " + index.filename().string() +
                             " does not name");
    }
  }
  return set;
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  names.reserve(owner_.size());
  for (const auto& entry : owner_) names.push_back(entry.first);
  return names;
}

at::Tensor TensorFiles::tensor(const std::string& name) const {
  const auto found = owner_.find(name);
  if (found != owner_.end()) return files_[found->second].tensor(name);
  const std::optional<std::string> near = nearest(name, names());
  throw checkpoint_error(where_ + " holds no tensor '" + name + "'" +
                         (near ? "; the nearest name is " + printable_name(*near) : ""));
}

}  // namespace trainctl
