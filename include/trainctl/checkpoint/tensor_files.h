// Tensors by name, from one safetensors file or from several with an index: weights, or the state
// of an optimizer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainctl/checkpoint/safetensors.h"

namespace trainctl {

class TensorFiles {
 public:
  TensorFiles() = default;
  TensorFiles(SafetensorsFile file);  // NOLINT(google-explicit-constructor): one file is a set too

  // `stem`.safetensors in `folder`, or the shards that `stem`.safetensors.index.json names there.
  // The index is untrusted: names stay in the folder, and index and shards must agree about every
  // tensor. Throws checkpoint_error.
  static TensorFiles open(const fs::path& folder, const std::string& stem);

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const { return owner_.contains(name); }
  // As SafetensorsFile::tensor.
  at::Tensor tensor(const std::string& name) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  void add(SafetensorsFile file);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> owner_;  // tensor → which of files_
  std::string where_;                    // for messages
};

}  // namespace trainctl
