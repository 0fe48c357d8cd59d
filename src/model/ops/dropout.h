// Masks that are drawn again in the backward pass instead of stored.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "model/ops/kernels/kernels.h"
#include "trainctl/runtime/device.h"

namespace trainctl::ops {

// The masks of one node of the graph: functions of one draw from the CPU's default generator and of
// the place in the node, so that they follow the generator's seed and not the thread count.
class DropoutSource {
 public:
  // Draws only when something will be dropped.
  explicit DropoutSource(bool active) {
    if (!active) return;
    auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(
        std::nullopt, at::detail::getDefaultCPUGenerator());
    const std::lock_guard<std::mutex> lock(generator->mutex_);
    seed_ = generator->random64();
  }

  kernels::Dropout at_place(uint64_t place, double p) const {
    kernels::Dropout dropout;
    if (p <= 0) return dropout;
    const uint64_t key = derive_seed(seed_, place);
    dropout.threshold =
        static_cast<uint32_t>(std::clamp(std::round(p * 4294967296.0), 1.0, 4294967295.0));
    dropout.scale = p < 1 ? static_cast<float>(1.0 / (1.0 - p)) : 0.0f;
    dropout.key_low = static_cast<uint32_t>(key);
    dropout.key_high = static_cast<uint32_t>(key >> 32);
    return dropout;
  }

 private:
  uint64_t seed_ = 0;
};

}  // namespace trainctl::ops
