// Gradient synchronisation by c10d::Reducer, the class behind PyTorch's DistributedDataParallel.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "parallel/heartbeat.h"
#include "trainctl/config/config.h"
#include "trainctl/model/model.h"
#include "trainctl/parallel/gradient_sync.h"

namespace trainctl {

// `backend` is `group`'s for the parameters' device.
std::unique_ptr<GradientSync> make_reducer_sync(const std::vector<NamedParameter>& parameters,
                                                const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                const c10::intrusive_ptr<c10d::Backend>& backend,
                                                const ParallelConfig& config, Progress& progress);

}  // namespace trainctl
