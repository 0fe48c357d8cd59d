#include "trainctl/base/version.h"

namespace trainctl {
const char* const kVersion = TRAINCTL_VERSION;
const char* const kBuildId = TRAINCTL_BUILD_ID;
const char* const kCompiler = TRAINCTL_COMPILER;
const char* const kBuildType = TRAINCTL_BUILD_TYPE;
const char* const kSanitizers = TRAINCTL_SANITIZERS;
const char* const kTorchVersion = TRAINCTL_TORCH;
const char* const kTorchCuda = TRAINCTL_TORCH_CUDA;
}  // namespace trainctl
