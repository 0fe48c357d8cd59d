// Versions of the libraries in use, as they say themselves; none of these needs a GPU.
#pragma once

#include <string>

namespace trainctl {

int cuda_runtime_version();   // 13000 for 13.0
int cuda_driver_version();    // the newest CUDA the driver serves; 0 without a driver
std::string cudnn_version();  // "9.19.0" as loaded
std::string nccl_version();   // "2.28.9" as loaded
std::string
version_warnings();  // where a loaded library is older than the one built against; else ""

}  // namespace trainctl
