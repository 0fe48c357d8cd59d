#include "trainctl/train/train_step.h"

#include "trainctl/train/clip.h"

namespace trainctl {

TrainStep::TrainStep(const Config& config, Model& model, Optimizer& optimizer, GradScaler& scaler,
                     Device& device)
    : config_(config), model_(model), optimizer_(optimizer), scaler_(scaler), device_(device) {}

StepResult TrainStep::run(const StepBatch& batch, int64_t step, double learning_rate) {
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  const double per_target = 1.0 / static_cast<double>(batch.valid_targets);

  optimizer_.release_grad();
  at::Tensor loss;
  uint64_t micro_batch_number = 0;
  for (const MicroBatch& micro_batch : batch.micro_batches) {
    if (config_.model.dropout > 0) {
      device_.seed(
          derive_seed(seed, kDropoutStream, static_cast<uint64_t>(step), micro_batch_number));
    }
    ++micro_batch_number;
    at::Tensor micro_loss;
    {
      AutocastGuard autocast(config_.precision.dtype, device_.torch_device());
      micro_loss = model_.loss_sum(micro_batch.tokens, micro_batch.targets,
                                   config_.training.label_smoothing) *
                   per_target;
    }
    scaler_.scale(micro_loss).backward();
    loss = loss.defined() ? loss + micro_loss.detach() : micro_loss.detach();
  }

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

}  // namespace trainctl
