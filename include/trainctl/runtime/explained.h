// Errors of libraries as errors a user can put right.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace trainctl {

// The error's text without a stack.
std::string error_text(const std::exception_ptr& error);

// A known error of LibTorch, CUDA, cuDNN, NCCL or Gloo as a UserError with cause, cure and exit
// code (base/explanations.h); any other comes back as it is. `gpu_free` (bytes) helps to decide,
// and is not asked for here: after some errors CUDA must be left alone.
std::exception_ptr explained(const std::exception_ptr& error,
                             const std::optional<uint64_t>& gpu_free = std::nullopt);

}  // namespace trainctl
