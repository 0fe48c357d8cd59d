// Mean loss over a data set, each sample once, at any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trainctl/config/config.h"
#include "trainctl/data/data.h"
#include "trainctl/model/model.h"
#include "trainctl/parallel/communicator.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

struct Evaluation {
  double loss = 0;     // mean over valid targets
  int64_t tokens = 0;  // valid targets
  bool complete = true;
};

// Dropout off, no label smoothing, under the run's autocast. Every rank takes its share of the
// batches and gets the result of all. A rank for which `interrupted` (asked before each batch) is
// true leaves out the rest of its share; the evaluation is then incomplete on all, without a loss.
Evaluation evaluate(Model& model, std::shared_ptr<const Dataset> dataset, const Config& config,
                    Device& device, Communicator& communicator,
                    const std::function<bool()>& interrupted = {});

}  // namespace trainctl
