#include "model/ops/block.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <bitset>
#include <utility>

#include "model/ops/block_forward.h"
#include "model/ops/dropout.h"
#include "model/ops/guards.h"
#include "model/ops/products.h"

namespace trainctl::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMaxTime = 2048;  // beyond, whole rows of scores leave the cache

bool has_kernel(Activation activation) { return activation != Activation::kSwiglu; }

kernels::ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return kernels::ActivationKind::kGelu;
    case Activation::kGeluTanh:
      return kernels::ActivationKind::kGeluTanh;
    case Activation::kRelu:
      return kernels::ActivationKind::kRelu;
    case Activation::kSwiglu:
      break;
  }
  TORCH_CHECK(false, "activation without a kernel");
}

void set_dropout(BlockState* state) {
  const StackOptions& options = state->options;
  const DropoutSource source(options.attention_dropout > 0 || options.residual_dropout > 0 ||
                             options.activation_dropout > 0);
  state->attention_dropout = source.at_place(0, options.attention_dropout);
  state->attention_out_dropout = source.at_place(1, options.residual_dropout);
  state->hidden_dropout = source.at_place(2, options.activation_dropout);
  state->down_dropout = source.at_place(3, options.residual_dropout);
}

// All parameters in the order of BlockParameter, undefined where the layer has none: autograd takes
// only defined ones.
variable_list by_parameter(at::TensorList present, const BlockState& state) {
  variable_list all(kBlockParameters);
  size_t next = 0;
  for (size_t i = 0; i < kBlockParameters; ++i) {
    if (state.has_parameter[i]) all[i] = present[next++];
  }
  return all;
}

struct BlockFunction : torch::autograd::Function<BlockFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_btd,
                            at::TensorList present,
                            const std::bitset<kBlockParameters>& has_parameter,
                            const StackOptions& options, at::ScalarType type) {
    const RawGuard raw;
    auto state = c10::make_intrusive<BlockState>();
    state->options = options;
    state->has_parameter = has_parameter;
    const variable_list weights = by_parameter(present, *state);
    state->activation = activation_kind(options.activation);
    state->batch = x_btd.size(0);
    state->time = x_btd.size(1);
    state->width = x_btd.size(2);
    state->hidden = weights[kUpWeight].size(0);
    set_dropout(state.get());
    const at::Tensor x_nd = x_btd.contiguous().view({state->rows(), state->width});
    const at::Tensor out_nd = type == at::kFloat
                                  ? block_forward<float>(x_nd, weights, state.get())
                                  : block_forward<kernels::Bf16>(x_nd, weights, state.get());

    variable_list saved = present.vec();
    saved.push_back(x_btd);
    context->save_for_backward(std::move(saved));
    context->saved_data["state"] = c10::IValue::make_capsule(std::move(state));
    return out_nd.view(x_btd.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list out_grads) {
    const RawGuard raw;
    variable_list saved = context->get_saved_variables();
    const at::Tensor x_btd = std::move(saved.back());
    saved.pop_back();
    auto state =
        c10::static_intrusive_pointer_cast<BlockState>(context->saved_data["state"].toCapsule());
    const variable_list weights = by_parameter(saved, *state);
    // A second pass through this node is refused by get_saved_variables unless the graph is kept.
    if (!torch::autograd::get_current_graph_task_keep_graph()) context->saved_data.clear();

    const at::Tensor x_nd = x_btd.contiguous().view({state->rows(), state->width});
    const at::Tensor out_grad_nd = out_grads[0].contiguous().view(x_nd.sizes());
    std::vector<at::Tensor> grads =
        state->qkv_n3d.scalar_type() == at::kFloat
            ? block_backward<float>(out_grad_nd, x_nd, weights, *state)
            : block_backward<kernels::Bf16>(out_grad_nd, x_nd, weights, *state);
    variable_list result = {grads[0].view(x_btd.sizes())};
    for (size_t i = 0; i < kBlockParameters; ++i) {
      if (state->has_parameter[i]) result.push_back(std::move(grads[1 + i]));
    }
    result.resize(result.size() + 3);  // what is no tensor has no gradient
    return result;
  }
};

}  // namespace

bool serves_block(const at::Tensor& x_btd, const BlockWeights& block, const StackOptions& options,
                  bool rotary) {
  const int64_t width = x_btd.size(-1), head_width = width / options.n_heads;
  const int64_t lanes = kernels::kColumnPadding;
  return x_btd.device().is_cpu() && x_btd.scalar_type() == at::kFloat && !rotary &&
         has_kernel(options.activation) && fast_products(compute_type()) && width % lanes == 0 &&
         block.mlp_up.weight.size(0) % lanes == 0 && head_width % lanes == 0 &&
         head_width <= kernels::kMaxHeadWidth && x_btd.size(1) <= kMaxTime;
}

at::Tensor block(const at::Tensor& x_btd, const BlockWeights& b, const StackOptions& options) {
  // In the order of BlockParameter.
  const std::array<at::Tensor, kBlockParameters> weights = {
      b.qkv.weight,    b.qkv.bias,    b.attention_out.weight, b.attention_out.bias,
      b.mlp_up.weight, b.mlp_up.bias, b.mlp_down.weight,      b.mlp_down.bias,
      b.norm1.weight,  b.norm1.bias,  b.norm2.weight,         b.norm2.bias};
  std::bitset<kBlockParameters> has_parameter;
  variable_list present;
  for (size_t i = 0; i < kBlockParameters; ++i) {
    has_parameter[i] = weights[i].defined();
    if (weights[i].defined()) present.push_back(weights[i]);
  }
  return BlockFunction::apply(x_btd, at::TensorList(present), has_parameter, options,
                              compute_type());
}

}  // namespace trainctl::ops
