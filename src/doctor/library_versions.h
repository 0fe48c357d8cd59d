// Which version a shared object on disk is, told from the names and files around it.
#pragma once

#include <optional>
#include <string>

#include "trainctl/base/files.h"

namespace trainctl::doctor {

// "13.0.96"; empty when nothing tells. From the name its link leads to, the header beside it
// (cuDNN, NCCL), LibTorch's version.py, or the wheel it came in.
std::string version_of_library(const fs::path& path);

struct LibTorchVersion {
  std::string version;  // "2.11.0+cu130"
  std::string cuda;     // "13.0"; empty: not known, or a CPU-only build
};
// From the folder above torch/lib.
LibTorchVersion version_of_libtorch(const fs::path& libtorch_cpu);

// Negative, 0 or positive; parts compare as numbers.
int compare_versions(const std::string& a, const std::string& b);

}  // namespace trainctl::doctor
