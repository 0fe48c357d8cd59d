#pragma once

namespace trainctl {
extern const char* const kVersion;  // "0.1.0"
extern const char* const kBuildId;  // the same in all three units of one build; units of different
                                    // builds refuse each other
}  // namespace trainctl
