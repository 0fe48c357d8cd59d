// Shared objects that the loader does not load: which package brings them and what to do, in one
// place for every message.
#pragma once

#include <string>

#include "trainctl/base/explanations.h"

namespace trainctl {

// "the CUDA runtime (PyPI: nvidia-cuda-runtime; CUDA Toolkit: cuda-cudart), …"; empty for an object
// that is in no row. `path` may have folders before the name.
std::string provider_of(const std::string& path);

// What the loader's message (dlerror) about `library` means for the user: which object is missing
// or of the wrong version, which package brings it, what to set.
Explanation explain_load_failure(const std::string& library, const std::string& loader_message);

}  // namespace trainctl
