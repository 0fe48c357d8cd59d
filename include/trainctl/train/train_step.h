// One optimizer step: forward and backward over the micro-batches, unscale, clip, update.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "trainctl/config/config.h"
#include "trainctl/data/data.h"
#include "trainctl/model/model.h"
#include "trainctl/runtime/device.h"
#include "trainctl/train/grad_scaler.h"
#include "trainctl/train/optimizer.h"

namespace trainctl {

// Device scalars: nothing here waits for the device.
struct StepResult {
  at::Tensor loss;       // mean over the valid targets of the global batch
  at::Tensor grad_norm;  // of the unscaled gradients, before clipping
  at::Tensor found_inf;  // 1 where a gradient was not finite and the update was skipped
};

class TrainStep {
 public:
  TrainStep(const Config& config, Model& model, Optimizer& optimizer, GradScaler& scaler,
            Device& device);

  // `step` counts updates from 0; it and the micro-batch's number seed the dropout masks.
  StepResult run(const StepBatch& batch, int64_t step, double learning_rate);

 private:
  const Config& config_;
  Model& model_;
  Optimizer& optimizer_;
  GradScaler& scaler_;
  Device& device_;
};

}  // namespace trainctl
