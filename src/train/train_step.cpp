#include "trainctl/train/train_step.h"

#include <algorithm>

#include "trainctl/train/clip.h"

namespace trainctl {

TrainStep::TrainStep(const Config& config, int64_t rank, Model& model, GradientSync& sync,
                     Optimizer& optimizer, GradScaler& scaler, Device& device)
    : config_(config),
      rank_(rank),
      model_(model),
      sync_(sync),
      optimizer_(optimizer),
      scaler_(scaler),
      device_(device) {}

StepResult TrainStep::run(const StepBatch& batch, int64_t step, double learning_rate,
                          const std::function<void()>& before_last_backward) {
  // A batch whose targets are all ignored has no loss and no gradient, not 0/0.
  const double per_target = 1.0 / static_cast<double>(std::max<int64_t>(batch.valid_targets, 1));

  optimizer_.release_grad();
  at::Tensor loss;
  for (size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const MicroBatch& micro_batch = batch.micro_batches[i];
    progress_ = {Phase::kForward, i, batch.micro_batches.size()};
    if (config_.model.dropout > 0) device_.seed(dropout_seed(step, i));
    at::Tensor micro_loss;
    {
      AutocastGuard autocast(config_.precision.dtype, device_.torch_device());
      micro_loss = model_.loss_sum(micro_batch.tokens, micro_batch.targets,
                                   config_.training.label_smoothing) *
                   per_target;
    }
    const bool last = i + 1 == batch.micro_batches.size();
    if (last) before_last_backward();
    progress_.phase = Phase::kBackward;
    sync_.backward(scaler_.scale(micro_loss), last);
    loss = loss.defined() ? loss + micro_loss.detach() : micro_loss.detach();
  }

  progress_.phase = Phase::kUpdate;
  const std::vector<at::Tensor> grads = optimizer_.gradients();
  scaler_.unscale(grads);
  const at::Tensor grad_norm = gradient_norm(grads);
  scaler_.guard(grad_norm);
  // Clipping is a division inside the optimizer's kernel, after the unscaling above.
  optimizer_.step(learning_rate, clip_divisor(grad_norm, config_.training.max_grad_norm),
                  scaler_.found_inf());
  scaler_.update();
  return {loss, grad_norm, scaler_.found_inf()};
}

uint64_t TrainStep::dropout_seed(int64_t step, size_t micro_batch) const {
  const uint64_t seed = derive_seed(static_cast<uint64_t>(config_.run.seed), kDropoutStream,
                                    static_cast<uint64_t>(step), micro_batch);
  return rank_ == 0 ? seed : derive_seed(seed, static_cast<uint64_t>(rank_));
}

}  // namespace trainctl
