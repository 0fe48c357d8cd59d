// How one bucket of gradients is summed over the ranks.
#pragma once

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "trainctl/config/config.h"

namespace trainctl {

// A hook for c10d::Reducer that sums, where Reducer's own would also divide by the number of ranks:
// the loss is a mean over the targets of all of them already. `on_last_bucket` is called when this
// rank's own gradients are complete.
std::unique_ptr<c10d::CommHookInterface> make_sum_hook(
    const c10::intrusive_ptr<c10d::Backend>& backend, GradientCompression compression,
    std::function<void()> on_last_bucket);

}  // namespace trainctl
