// Where the ranks of a run meet: c10d's TCP store, served by rank 0 or by torchrun's agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainctl/base/world.h"
#include "trainctl/parallel/communicator.h"

namespace trainctl {

struct MeetingPlace {
  c10::intrusive_ptr<c10d::Store> store;  // keys of this attempt only
  bool served_here = false;               // it ends with this process
  std::string address;                    // of this host, as the others reach it, in numbers
};

// Returns when all ranks have come. `must_agree` is a JSON object; a rank whose differs from rank
// 0's is refused by all with usage_error, naming the value. environment_error where the store
// cannot be served or reached, or ranks stay away, naming them. A stop request ends the process.
MeetingPlace meet(const ProcessWorld& world, std::chrono::milliseconds timeout,
                  const std::string& must_agree, const StopRequest& stop);

// How a rank introduced itself: "host7, process 4711". Empty when it did not.
std::string introduction_of(c10d::Store& store, int64_t rank);

}  // namespace trainctl
