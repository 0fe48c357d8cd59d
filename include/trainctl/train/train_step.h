// One optimizer step: forward and backward over the micro-batches, unscale, clip, update.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

#include "trainctl/config/config.h"
#include "trainctl/data/data.h"
#include "trainctl/model/model.h"
#include "trainctl/parallel/gradient_sync.h"
#include "trainctl/runtime/device.h"
#include "trainctl/train/grad_scaler.h"
#include "trainctl/train/optimizer.h"

namespace trainctl {

// Device scalars: nothing here waits for the device.
struct StepResult {
  at::Tensor loss;       // this rank's part of the mean over the valid targets of the global batch
  at::Tensor grad_norm;  // of the unscaled gradients of all ranks, before clipping
  // 1 where a gradient was not finite and the update was skipped. Ranks need not agree on it: where
  // one rank's gradient is not finite, the sum over all is not.
  at::Tensor found_inf;
};

class TrainStep {
 public:
  TrainStep(const Config& config, int64_t rank, Model& model, GradientSync& sync,
            Optimizer& optimizer, GradScaler& scaler, Device& device);

  // `step` counts updates from 0; it, the micro-batch's number and the rank seed the dropout masks.
  // `before_last_backward` is called when only the last micro-batch's backward pass is left.
  StepResult run(const StepBatch& batch, int64_t step, double learning_rate,
                 const std::function<void()>& before_last_backward);

  // Where run() is, or was when it threw.
  enum class Phase { kForward, kBackward, kUpdate };
  struct Progress {
    Phase phase = Phase::kForward;
    size_t micro_batch = 0, micro_batches = 1;
  };
  const Progress& progress() const { return progress_; }

 private:
  uint64_t dropout_seed(int64_t step, size_t micro_batch) const;

  const Config& config_;
  int64_t rank_;
  Model& model_;
  GradientSync& sync_;
  Optimizer& optimizer_;
  GradScaler& scaler_;
  Device& device_;
  Progress progress_;
};

}  // namespace trainctl
