// Two seconds of summing buckets over all ranks, before the first step.
#pragma once

#include <optional>
#include <string>

#include "trainctl/parallel/communicator.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

// "1.8 GB/s bus bandwidth …", or why there is nothing to measure. Throws UserError where the sums
// are wrong.
struct AllReduceRate {
  double bus_bytes_per_second = 0;  // as nccl-tests count: what each rank's link must carry
  int64_t rounds = 0;
  int64_t bytes = 0;  // of a bucket
  double seconds = 0;
};
// Nothing where there is one process only. Throws as the one below.
std::optional<AllReduceRate> measure_all_reduce(Communicator& communicator, double bucket_mb,
                                                Device& device, double seconds);

std::string all_reduce_self_test(Communicator& communicator, double bucket_mb, Device& device);

}  // namespace trainctl
