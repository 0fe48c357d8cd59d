// Where the other units of this installation lie, seen from the executable.
#pragma once

#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

constexpr const char* kEngineLibrary = "libtrainctl_engine.so";
constexpr const char* kCudaUnitLibrary = "libtrainctl_cuda.so";  // lies beside the engine

struct EngineSearch {
  fs::path path;       // empty: not found
  bool named = false;  // TRAINCTL_ENGINE says where
  std::vector<std::string> tried;
};

// $TRAINCTL_ENGINE (the library or its folder) alone when it is set; else where a build or an
// installation puts it.
EngineSearch search_engine();

}  // namespace trainctl
