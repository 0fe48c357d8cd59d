// Shape suffixes: n rows, d model width, v vocabulary.
#include "model/ops/head_loss.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "model/ops/buffers.h"
#include "model/ops/guards.h"
#include "model/ops/products.h"
#include "model/ops/threads.h"
#include "trainctl/model/model.h"

namespace trainctl::ops {
namespace {

using kernels::Bf16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements of logits at a time. Fewer would mean more passes over the weight's gradient, to which
// every chunk adds; more would no longer fit the last-level cache of a server.
constexpr int64_t kChunkElements = int64_t{1} << 24;
constexpr int64_t kChunkStep = 64;

struct HeadGradients : torch::CustomClassHolder {
  at::Tensor features, weight, bias;
};

template <typename T>
class HeadLoss {
 public:
  HeadLoss(const at::Tensor& x_nd, const at::Tensor& weight_vd, const at::Tensor& bias_v,
           const at::Tensor& targets_n, double label_smoothing, HeadGradients* grads)
      : x_nd_(in_type<T>(x_nd)),
        weight_vd_(in_type<T>(weight_vd)),
        bias_v_(bias_v),
        targets_n_(targets_n),
        label_smoothing_(label_smoothing),
        grads_(grads) {}

  double run() {
    const int64_t rows = x_nd_.size(0), classes = weight_vd_.size(0);
    const int64_t stride =
        (classes + kernels::kColumnPadding - 1) / kernels::kColumnPadding * kernels::kColumnPadding;
    const int64_t fitting = std::max(kChunkStep, kChunkElements / stride / kChunkStep * kChunkStep);
    const int64_t chunk = std::min(rows, fitting);
    const int64_t parts = parts_of(chunk * classes, kElementsPerThread);
    const at::Tensor logits_nv = empty<T>({chunk, stride});
    std::optional<PartialSums> bias_sums;
    if (grads_ != nullptr) {
      grads_->features = empty<float>({rows, x_nd_.size(1)});
      grads_->weight = empty<float>({classes, x_nd_.size(1)});
      if (bias_v_.defined()) {
        grads_->bias = empty<float>({classes});
        bias_sums.emplace(grads_->bias, parts);
      }
    }
    double loss = 0;
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t count = std::min(chunk, rows - begin);
      const at::Tensor z_nv = logits_nv.narrow(0, 0, count).narrow(1, 0, classes);
      const at::Tensor x_cd = x_nd_.narrow(0, begin, count);
      product(plain(x_cd), transposed(weight_vd_), bias_v_, z_nv);
      loss += cross_entropy(z_nv, begin, parts, bias_sums);
      if (grads_ == nullptr) continue;
      product(plain(z_nv), plain(weight_vd_), grads_->features.narrow(0, begin, count));
      product(transposed(z_nv), plain(x_cd), grads_->weight, begin > 0);
    }
    if (bias_sums) bias_sums->finish();
    return loss;
  }

 private:
  double cross_entropy(const at::Tensor& z_nv, int64_t begin, int64_t parts,
                       std::optional<PartialSums>& bias_sums) {
    kernels::CrossEntropy<T> c{};
    c.logits = write<T>(z_nv);
    c.targets = targets_n_.const_data_ptr<int64_t>() + begin;
    c.classes = z_nv.size(1);
    c.stride = z_nv.stride(0);
    c.ignore = kIgnoreIndex;
    c.label_smoothing = label_smoothing_;
    c.write_grad = grads_ != nullptr;
    std::vector<double> losses(static_cast<size_t>(parts));
    for_parts(z_nv.size(0), parts, [&](int64_t part, int64_t first, int64_t last) {
      auto mine = c;
      if (bias_sums) mine.bias_grad = bias_sums->of_part(part);
      losses[static_cast<size_t>(part)] = kernels::of<T>().cross_entropy(mine, first, last);
    });
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  at::Tensor x_nd_, weight_vd_;
  const at::Tensor& bias_v_;
  const at::Tensor& targets_n_;
  double label_smoothing_;
  HeadGradients* grads_;  // nullptr: only the loss is wanted
};

void check_targets(const at::Tensor& targets_n, int64_t classes) {
  const int64_t* targets = targets_n.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < targets_n.numel(); ++i) {
    TORCH_CHECK_INDEX((targets[i] >= 0 && targets[i] < classes) || targets[i] == kIgnoreIndex,
                      "target ", targets[i], " is outside the ", classes, " classes");
  }
}

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& features,
                            const at::Tensor& weight_vd,
                            const std::optional<at::Tensor>& optional_bias_v,
                            const at::Tensor& targets, double label_smoothing, at::ScalarType type,
                            bool with_gradient) {
    const RawGuard raw;
    const at::Tensor bias_v = optional_bias_v.value_or(at::Tensor());
    const at::Tensor x_nd = features.contiguous().view({-1, features.size(-1)});
    const at::Tensor targets_n = targets.contiguous().view({-1});
    check_targets(targets_n, weight_vd.size(0));
    auto grads =
        with_gradient ? c10::make_intrusive<HeadGradients>() : c10::intrusive_ptr<HeadGradients>();
    const double loss =
        type == at::kFloat
            ? HeadLoss<float>(x_nd, weight_vd, bias_v, targets_n, label_smoothing, grads.get())
                  .run()
            : HeadLoss<Bf16>(x_nd, weight_vd, bias_v, targets_n, label_smoothing, grads.get())
                  .run();
    if (grads) {
      grads->features = grads->features.view(features.sizes());
      context->saved_data["grads"] = c10::IValue::make_capsule(std::move(grads));
    }
    return at::scalar_tensor(loss, at::kFloat);
  }

  static variable_list backward(AutogradContext* context, variable_list out_grads) {
    const RawGuard raw;
    const auto found = context->saved_data.find("grads");
    TORCH_CHECK(found != context->saved_data.end(), "the loss was already differentiated");
    auto grads = c10::static_intrusive_pointer_cast<HeadGradients>(found->second.toCapsule());
    variable_list result = {grads->features, grads->weight, grads->bias};
    const bool keep = torch::autograd::get_current_graph_task_keep_graph();
    if (!keep) {
      context->saved_data.clear();
      grads.reset();
    }
    for (at::Tensor& grad : result) {
      if (!grad.defined()) continue;
      if (keep) {
        grad = grad * out_grads[0];
      } else {
        grad.mul_(out_grads[0]);
      }
    }
    result.resize(7);  // targets, smoothing, type and switch have none
    return result;
  }
};

}  // namespace

bool serves_head(const at::Tensor& features, const LinearWeights& head) {
  return features.device().is_cpu() && features.scalar_type() == at::kFloat &&
         head.weight.size(1) % kernels::kColumnPadding == 0 && fast_products(compute_type());
}

at::Tensor head_cross_entropy_sum(const at::Tensor& features, const LinearWeights& head,
                                  const at::Tensor& targets, double label_smoothing) {
  const bool with_gradient =
      at::GradMode::is_enabled() && (features.requires_grad() || head.weight.requires_grad());
  return HeadLossFunction::apply(features, head.weight, optional_tensor(head.bias), targets,
                                 label_smoothing, compute_type(), with_gradient);
}

}  // namespace trainctl::ops
