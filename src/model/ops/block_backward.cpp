// Shape suffixes as in block_state.h.
#include <algorithm>

#include "model/ops/block_forward.h"
#include "model/ops/buffers.h"
#include "model/ops/products.h"
#include "model/ops/threads.h"

namespace trainctl::ops {
namespace {

using kernels::Bf16;

template <typename T>
class Backward {
 public:
  Backward(const at::Tensor& x_nd, at::TensorList weights, const BlockState& state)
      : x_nd_(x_nd), w_(weights), s_(state), rows_(state.rows()), grads_(1 + kBlockParameters) {}

  std::vector<at::Tensor> pre_norm(const at::Tensor& out_grad_nd) {
    at::Tensor branch_grad_nd = branch_gradient(out_grad_nd);
    const at::Tensor mlp_in_grad_nd = empty<T>({rows_, s_.width});
    product(plain(mlp_hidden_gradient(branch_grad_nd)), plain(s_.up_w), mlp_in_grad_nd);

    kernels::NormBackward<T> norm2{};
    norm2.grad = read<T>(mlp_in_grad_nd);
    norm2.residual = read<float>(out_grad_nd);
    const at::Tensor sum1_grad_nd = empty<float>({rows_, s_.width});
    branch_grad_nd = norm_gradient(&norm2, kNorm2Weight, s_.sum1_nd, s_.mean2_n, s_.rstd2_n,
                                   sum1_grad_nd, kOutBias, s_.attention_out_dropout);

    const at::Tensor attention_in_grad_nd = empty<T>({rows_, s_.width});
    product(plain(attention_gradient(branch_grad_nd)), plain(s_.qkv_w), attention_in_grad_nd);
    kernels::NormBackward<T> norm1{};
    norm1.grad = read<T>(attention_in_grad_nd);
    norm1.residual = read<float>(sum1_grad_nd);
    grads_[0] = sum1_grad_nd;  // each element is read before it is written
    norm_gradient(&norm1, kNorm1Weight, x_nd_, s_.mean1_n, s_.rstd1_n, grads_[0], kBlockParameters,
                  {});
    return std::move(grads_);
  }

  std::vector<at::Tensor> post_norm(const at::Tensor& out_grad_nd) {
    kernels::NormBackward<T> norm2{};
    norm2.grad32 = read<float>(out_grad_nd);
    const at::Tensor middle_grad_nd = empty<float>({rows_, s_.width});
    at::Tensor branch_grad_nd =
        norm_gradient(&norm2, kNorm2Weight, s_.sum2_nd, s_.mean2_n, s_.rstd2_n, middle_grad_nd,
                      kDownBias, s_.down_dropout);
    const at::Tensor up_grad_nf = mlp_hidden_gradient(branch_grad_nd);
    product(plain(up_grad_nf), plain(s_.up_w), own(&branch_grad_nd, middle_grad_nd), true);

    kernels::NormBackward<T> norm1{};
    norm1.grad32 = read<float>(middle_grad_nd);
    grads_[0] = empty<float>({rows_, s_.width});
    branch_grad_nd = norm_gradient(&norm1, kNorm1Weight, s_.sum1_nd, s_.mean1_n, s_.rstd1_n,
                                   grads_[0], kOutBias, s_.attention_out_dropout);
    const at::Tensor qkv_grad_n3d = attention_gradient(branch_grad_nd);
    product(plain(qkv_grad_n3d), plain(s_.qkv_w), own(&branch_grad_nd, grads_[0]), true);
    return std::move(grads_);
  }

 private:
  // Drops the branch's gradient, which may share memory with the sum that is about to change.
  static const at::Tensor& own(at::Tensor* branch_grad, const at::Tensor& sum) {
    branch_grad->reset();
    return sum;
  }

  at::Tensor& grad(size_t parameter) { return grads_[1 + parameter]; }

  void weight_gradient(BlockParameter parameter, const at::Tensor& out_grad, const at::Tensor& in) {
    grad(parameter) = empty<float>(w_[parameter].sizes());
    product(transposed(out_grad), plain(in), grad(parameter));
  }

  // Sums over rows for a vector parameter; undefined for one that the layer does not have.
  std::optional<PartialSums> sums_for(size_t parameter, int64_t parts) {
    if (parameter >= kBlockParameters || !w_[parameter].defined()) return std::nullopt;
    grad(parameter) = empty<float>(w_[parameter].sizes());
    return PartialSums(grad(parameter), parts);
  }

  static float* of_part(std::optional<PartialSums>& sums, int64_t part) {
    return sums ? sums->of_part(part) : nullptr;
  }

  static void finish(std::optional<PartialSums>& sums) {
    if (sums) sums->finish();
  }

  // In fp32 without dropout a branch's gradient is that of the sum it enters.
  static bool is_same(const kernels::Dropout& dropout) {
    return std::is_same_v<T, float> && !dropout.active();
  }

  at::Tensor branch_gradient(const at::Tensor& sum_grad_nd) {
    kernels::BranchBackward<T> b{};
    const at::Tensor result = is_same(s_.down_dropout) ? sum_grad_nd : empty<T>({rows_, s_.width});
    b.dx = read<float>(sum_grad_nd);
    b.branch_grad = is_same(s_.down_dropout) ? nullptr : write<T>(result);
    b.dropout = s_.down_dropout;
    b.width = s_.width;
    const int64_t parts = parts_of(rows_ * s_.width, kElementsPerThread);
    auto bias = sums_for(kDownBias, parts);
    for_parts(rows_, parts, [&](int64_t part, int64_t begin, int64_t end) {
      auto mine = b;
      mine.bias_grad = of_part(bias, part);
      kernels::of<T>().branch_backward(mine, begin, end);
    });
    finish(bias);
    return result;
  }

  // Writes the norm's input gradient and returns that of the branch added before it.
  at::Tensor norm_gradient(kernels::NormBackward<T>* norm, BlockParameter weight,
                           const at::Tensor& in_nd, const at::Tensor& mean_n,
                           const at::Tensor& rstd_n, const at::Tensor& dx_nd, size_t branch_bias,
                           const kernels::Dropout& dropout) {
    const bool same = is_same(dropout), has_branch = branch_bias != kBlockParameters;
    const at::Tensor branch_nd = !has_branch || same ? dx_nd : empty<T>({rows_, s_.width});
    norm->x = read<float>(in_nd);
    norm->mean = read<float>(mean_n);
    norm->rstd = read<float>(rstd_n);
    norm->gamma = read<float>(w_[weight]);
    norm->dx = write<float>(dx_nd);
    norm->branch_grad = !has_branch || same ? nullptr : write<T>(branch_nd);
    norm->dropout = dropout;
    norm->width = s_.width;
    const int64_t parts = parts_of(rows_ * s_.width, kElementsPerThread);
    auto gamma = sums_for(weight, parts);
    auto beta = sums_for(weight + 1, parts);
    auto bias = sums_for(branch_bias, parts);
    for_parts(rows_, parts, [&](int64_t part, int64_t begin, int64_t end) {
      auto mine = *norm;
      mine.gamma_grad = of_part(gamma, part);
      mine.beta_grad = of_part(beta, part);
      mine.bias_grad = of_part(bias, part);
      kernels::of<T>().norm_backward(mine, begin, end);
    });
    finish(gamma);
    finish(beta);
    finish(bias);
    return branch_nd;
  }

  // From the MLP's output to the first product's result.
  at::Tensor mlp_hidden_gradient(const at::Tensor& branch_grad_nd) {
    weight_gradient(kDownWeight, branch_grad_nd, s_.hidden_nf);
    const at::Tensor grad_nf = empty<T>({rows_, s_.hidden});
    product(plain(branch_grad_nd), plain(s_.down_w), grad_nf);
    kernels::ActivationBackward<T> a{};
    a.grad = write<T>(grad_nf);
    a.in = read<T>(s_.up_nf);
    a.out = read<T>(s_.hidden_nf);
    a.kind = s_.activation;
    a.dropout = s_.hidden_dropout;
    a.width = s_.hidden;
    const int64_t parts = parts_of(rows_ * s_.hidden, kElementsPerThread);
    auto bias = sums_for(kUpBias, parts);
    for_parts(rows_, parts, [&](int64_t part, int64_t begin, int64_t end) {
      auto mine = a;
      mine.bias_grad = of_part(bias, part);
      kernels::of<T>().activation_backward(mine, begin, end);
    });
    finish(bias);
    weight_gradient(kUpWeight, grad_nf, s_.mlp_in_nd);
    return grad_nf;
  }

  // From the attention's output projection to q, k and v.
  at::Tensor attention_gradient(const at::Tensor& branch_grad_nd) {
    weight_gradient(kOutWeight, branch_grad_nd, s_.heads_nd);
    const at::Tensor heads_grad_nd = empty<T>({rows_, s_.width});
    product(plain(branch_grad_nd), plain(s_.out_w), heads_grad_nd);
    const at::Tensor qkv_grad_n3d = empty<T>({rows_, 3 * s_.width});
    kernels::AttentionBackward<T> a{};
    a.forward = describe_attention<T>(s_);
    a.out_grad = read<T>(heads_grad_nd);
    a.qkv_grad = write<T>(qkv_grad_n3d);
    const int64_t items = s_.batch * s_.options.n_heads;
    const int64_t parts = parts_of(items, items_per_thread(s_));
    const int64_t size = kernels::attention_buffer(s_.time, a.forward.head_width, true);
    const at::Tensor buffers = empty<float>({parts, size});
    for_parts(items, parts, [&](int64_t part, int64_t begin, int64_t end) {
      kernels::of<T>().attention_backward(a, write<float>(buffers) + part * size, begin, end);
    });
    sum_rows(qkv_grad_n3d, kQkvBias);
    weight_gradient(kQkvWeight, qkv_grad_n3d, s_.attention_in_nd);
    return qkv_grad_n3d;
  }

  void sum_rows(const at::Tensor& rows, BlockParameter bias) {
    const int64_t parts = parts_of(rows.numel(), kElementsPerThread);
    auto sums = sums_for(bias, parts);
    if (!sums) return;
    for_parts(rows_, parts, [&](int64_t part, int64_t begin, int64_t end) {
      kernels::of<T>().column_sums(read<T>(rows), rows.size(-1), sums->of_part(part), begin, end);
    });
    sums->finish();
  }

  const at::Tensor& x_nd_;
  at::TensorList w_;
  const BlockState& s_;
  int64_t rows_;
  std::vector<at::Tensor> grads_;
};

}  // namespace

template <typename T>
std::vector<at::Tensor> block_backward(const at::Tensor& out_grad_nd, const at::Tensor& x_nd,
                                       at::TensorList weights, const BlockState& state) {
  Backward<T> backward(x_nd, weights, state);
  return state.options.norm_order == NormOrder::kPre ? backward.pre_norm(out_grad_nd)
                                                     : backward.post_norm(out_grad_nd);
}

template std::vector<at::Tensor> block_backward<float>(const at::Tensor&, const at::Tensor&,
                                                       at::TensorList, const BlockState&);
template std::vector<at::Tensor> block_backward<Bf16>(const at::Tensor&, const at::Tensor&,
                                                      at::TensorList, const BlockState&);

}  // namespace trainctl::ops
