#include <ATen/autocast_mode.h>

#include "trainctl/runtime/device.h"

namespace trainctl {

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return at::kBFloat16;
    case Dtype::kFp16:
      return at::kHalf;
    case Dtype::kFp32:
      break;
  }
  return at::kFloat;
}

// As torch.autocast's __enter__ and __exit__: casts of parameters are cached for the outermost
// guard's life, so a weight used in several micro-batch operations is cast once.
AutocastGuard::AutocastGuard(Dtype dtype, at::Device device)
    : active_(dtype != Dtype::kFp32), device_type_(device.type()) {
  if (!active_) {
    return;
  }
  previous_enabled_ = at::autocast::is_autocast_enabled(device_type_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_type_);
  previous_cache_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_enabled(device_type_, true);
  at::autocast::set_autocast_dtype(device_type_, scalar_type(dtype));
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) {
    return;
  }
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(device_type_, previous_enabled_);
  at::autocast::set_autocast_dtype(device_type_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(previous_cache_);
}

}  // namespace trainctl
