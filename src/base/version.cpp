#include "trainctl/base/version.h"

namespace trainctl {
const char* const kVersion = TRAINCTL_VERSION;
const char* const kBuildId = TRAINCTL_BUILD_ID;
}  // namespace trainctl
