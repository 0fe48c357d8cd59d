#include "trainctl/train/evaluate.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "train/evaluation_mode.h"

namespace trainctl {

Evaluation evaluate(Model& model, std::shared_ptr<const Dataset> dataset, const Config& config,
                    Device& device, Communicator& communicator,
                    const std::function<bool()>& interrupted) {
  at::NoGradGuard no_grad;
  const std::unique_ptr<EvalLoader> loader =
      make_eval_loader(std::move(dataset), config.training.micro_batch_size,
                       config.validation.max_batches, communicator.shape(), device);
  const EvaluationMode evaluation_mode(model);
  // fp64, so that the mean does not depend on how the samples fall into batches beyond fp32
  // rounding.
  at::Tensor loss_sum = at::zeros({}, at::TensorOptions(device.torch_device()).dtype(at::kDouble));
  at::Tensor targets = at::zeros({}, at::TensorOptions(device.torch_device()).dtype(at::kLong));
  bool cut_short = false;
  while (true) {
    cut_short = interrupted && interrupted();
    if (cut_short) break;
    const std::optional<MicroBatch> batch = loader->next();
    if (!batch) break;
    AutocastGuard autocast(config.precision.dtype, device.torch_device());
    loss_sum += model.loss_sum(batch->tokens, batch->targets, /*label_smoothing=*/0);
    targets += batch->targets.ne(kIgnoreIndex).sum();
  }
  communicator.sum(loss_sum, "validation");
  communicator.sum(targets, "validation");
  const at::Tensor cuts = at::full({}, cut_short ? 1 : 0, targets.options());
  communicator.sum(cuts, "validation");
  Evaluation result;
  if (cuts.item<int64_t>() > 0) {
    result.complete = false;
    return result;
  }
  result.tokens = targets.item<int64_t>();
  result.loss = loss_sum.item<double>() / static_cast<double>(result.tokens);
  return result;
}

}  // namespace trainctl
