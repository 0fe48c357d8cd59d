// State of the threads that run an operation of this folder.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/graph_task.h>

namespace trainctl::ops {

// Inside, ATen neither records nor casts by itself.
struct RawGuard {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

// The type in which products run: fp32, or that of autocast.
inline at::ScalarType compute_type() {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU)
                                                     : at::kFloat;
}

}  // namespace trainctl::ops
