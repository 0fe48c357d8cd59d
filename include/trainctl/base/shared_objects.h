// Which package brings a shared object that the loader does not find: one table for every message.
#pragma once

#include <string>

namespace trainctl {

// "the CUDA runtime (PyPI: nvidia-cuda-runtime; CUDA Toolkit: cuda-cudart), …"; empty for an object
// that is in no row. `path` may have folders before the name.
std::string provider_of(const std::string& path);

}  // namespace trainctl
