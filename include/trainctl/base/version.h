#pragma once

namespace trainctl {
extern const char* const kVersion;  // "0.1.0"
extern const char* const kBuildId;  // the same in all three units of one build; units of different
                                    // builds refuse each other

// How this program was built.
extern const char* const kCompiler;      // "GNU 12.2.0"
extern const char* const kBuildType;     // "Release"
extern const char* const kSanitizers;    // "address,undefined"; empty: none
extern const char* const kTorchVersion;  // of the engine's LibTorch, "2.11.0"; empty: no engine
extern const char* const kTorchCuda;     // its CUDA, "13.0"; "none", or empty when not known
}  // namespace trainctl
