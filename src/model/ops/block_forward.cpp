// Shape suffixes as in block_state.h.
#include "model/ops/block_forward.h"

#include "model/ops/buffers.h"
#include "model/ops/products.h"
#include "model/ops/threads.h"

namespace trainctl::ops {
namespace {

using kernels::Bf16;

template <typename T>
void run_norm(const kernels::NormForward<T>& norm, int64_t rows) {
  for_parts(rows, parts_of(rows * norm.width, kElementsPerThread),
            [&](int64_t, int64_t begin, int64_t end) {
              kernels::of<T>().norm_forward(norm, begin, end);
            });
}

template <typename T>
class Forward {
 public:
  Forward(const at::Tensor& x_nd, at::TensorList weights, BlockState* state)
      : x_nd_(x_nd), w_(weights), s_(*state), rows_(state->rows()) {
    s_.qkv_w = in_type<T>(w_[kQkvWeight]);
    s_.out_w = in_type<T>(w_[kOutWeight]);
    s_.up_w = in_type<T>(w_[kUpWeight]);
    s_.down_w = in_type<T>(w_[kDownWeight]);
  }

  // x + branch(norm(x)), twice.
  at::Tensor pre_norm() {
    s_.attention_in_nd = empty<T>({rows_, s_.width});
    auto norm1 = norm(kNorm1Weight, &s_.mean1_n, &s_.rstd1_n);
    norm1.x = read<float>(x_nd_);
    norm1.out = write<T>(s_.attention_in_nd);
    run_norm(norm1, rows_);

    const at::Tensor attended_nd = attend();
    s_.sum1_nd = empty<float>({rows_, s_.width});
    s_.mlp_in_nd = empty<T>({rows_, s_.width});
    auto norm2 = norm(kNorm2Weight, &s_.mean2_n, &s_.rstd2_n);
    add_branch(&norm2, x_nd_, attended_nd, s_.attention_out_dropout, s_.sum1_nd);
    norm2.out = write<T>(s_.mlp_in_nd);
    run_norm(norm2, rows_);

    const at::Tensor mixed_nd = mix();
    at::Tensor out_nd = empty<float>({rows_, s_.width});
    kernels::NormForward<T> sum{};
    sum.width = s_.width;
    add_branch(&sum, s_.sum1_nd, mixed_nd, s_.down_dropout, out_nd);
    run_norm(sum, rows_);
    return out_nd;
  }

  // norm(x + branch(x)), twice.
  at::Tensor post_norm() {
    s_.attention_in_nd = in_type<T>(x_nd_);
    const at::Tensor attended_nd = attend();
    s_.sum1_nd = empty<float>({rows_, s_.width});
    const at::Tensor middle_nd = empty<float>({rows_, s_.width});
    auto norm1 = norm(kNorm1Weight, &s_.mean1_n, &s_.rstd1_n);
    add_branch(&norm1, x_nd_, attended_nd, s_.attention_out_dropout, s_.sum1_nd);
    norm1.out32 = write<float>(middle_nd);
    if constexpr (std::is_same_v<T, float>) {
      s_.mlp_in_nd = middle_nd;
    } else {
      s_.mlp_in_nd = empty<T>({rows_, s_.width});
      norm1.out = write<T>(s_.mlp_in_nd);
    }
    run_norm(norm1, rows_);

    const at::Tensor mixed_nd = mix();
    s_.sum2_nd = empty<float>({rows_, s_.width});
    at::Tensor out_nd = empty<float>({rows_, s_.width});
    auto norm2 = norm(kNorm2Weight, &s_.mean2_n, &s_.rstd2_n);
    add_branch(&norm2, middle_nd, mixed_nd, s_.down_dropout, s_.sum2_nd);
    norm2.out32 = write<float>(out_nd);
    run_norm(norm2, rows_);
    return out_nd;
  }

 private:
  kernels::NormForward<T> norm(BlockParameter weight, at::Tensor* mean, at::Tensor* rstd) {
    *mean = empty<float>({rows_});
    *rstd = empty<float>({rows_});
    kernels::NormForward<T> norm{};
    norm.gamma = read<float>(w_[weight]);
    norm.beta = read_optional(w_[weight + 1]);
    norm.eps = static_cast<float>(s_.options.norm_eps);
    norm.mean = write<float>(*mean);
    norm.rstd = write<float>(*rstd);
    norm.width = s_.width;
    return norm;
  }

  void add_branch(kernels::NormForward<T>* norm, const at::Tensor& x_nd,
                  const at::Tensor& branch_nd, const kernels::Dropout& dropout,
                  const at::Tensor& sum_nd) {
    norm->x = read<float>(x_nd);
    norm->branch = read<T>(branch_nd);
    norm->dropout = dropout;
    norm->sum = write<float>(sum_nd);
  }

  at::Tensor attend() {
    s_.qkv_n3d = empty<T>({rows_, 3 * s_.width});
    product(plain(s_.attention_in_nd), transposed(s_.qkv_w), w_[kQkvBias], s_.qkv_n3d);
    s_.heads_nd = empty<T>({rows_, s_.width});
    s_.log_sum_bht = empty<float>({s_.batch, s_.options.n_heads, s_.time});
    const auto attention = describe_attention<T>(s_);
    const int64_t items = s_.batch * s_.options.n_heads;
    const int64_t parts = parts_of(items, items_per_thread(s_));
    const int64_t size = kernels::attention_buffer(s_.time, attention.head_width, false);
    const at::Tensor buffers = empty<float>({parts, size});
    for_parts(items, parts, [&](int64_t part, int64_t begin, int64_t end) {
      kernels::of<T>().attention(attention, write<float>(buffers) + part * size, begin, end);
    });
    const at::Tensor out_nd = empty<T>({rows_, s_.width});
    product(plain(s_.heads_nd), transposed(s_.out_w), w_[kOutBias], out_nd);
    return out_nd;
  }

  at::Tensor mix() {
    s_.up_nf = empty<T>({rows_, s_.hidden});
    product(plain(s_.mlp_in_nd), transposed(s_.up_w), w_[kUpBias], s_.up_nf);
    // ReLU's gradient needs only its result, which takes its argument's place.
    const bool in_place = s_.activation == kernels::ActivationKind::kRelu;
    s_.hidden_nf = in_place ? s_.up_nf : empty<T>({rows_, s_.hidden});
    kernels::ActivationForward<T> a{};
    a.in = read<T>(s_.up_nf);
    a.kind = s_.activation;
    a.dropout = s_.hidden_dropout;
    a.out = write<T>(s_.hidden_nf);
    a.width = s_.hidden;
    for_parts(rows_, parts_of(rows_ * s_.hidden, kElementsPerThread),
              [&](int64_t, int64_t begin, int64_t end) {
                kernels::of<T>().activation_forward(a, begin, end);
              });
    const at::Tensor out_nd = empty<T>({rows_, s_.width});
    product(plain(s_.hidden_nf), transposed(s_.down_w), w_[kDownBias], out_nd);
    return out_nd;
  }

  const at::Tensor& x_nd_;
  at::TensorList w_;
  BlockState& s_;
  int64_t rows_;
};

}  // namespace

template <typename T>
at::Tensor block_forward(const at::Tensor& x_nd, at::TensorList weights, BlockState* state) {
  Forward<T> forward(x_nd, weights, state);
  return state->options.norm_order == NormOrder::kPre ? forward.pre_norm() : forward.post_norm();
}

template at::Tensor block_forward<float>(const at::Tensor&, at::TensorList, BlockState*);
template at::Tensor block_forward<Bf16>(const at::Tensor&, at::TensorList, BlockState*);

}  // namespace trainctl::ops
