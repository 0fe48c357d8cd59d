// Two seconds of summing buckets over all ranks, before the first step.
#pragma once

#include <string>

#include "trainctl/parallel/communicator.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

// "1.8 GB/s bus bandwidth …", or why there is nothing to measure. Throws UserError where the sums
// are wrong.
std::string all_reduce_self_test(Communicator& communicator, double bucket_mb, Device& device);

}  // namespace trainctl
