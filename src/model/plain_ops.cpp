#include "model/plain_ops.h"

#include "trainctl/model/model.h"

namespace trainctl::plain {

at::Tensor linear(const at::Tensor& x, const LinearWeights& w) {
  return at::linear(x, w.weight, optional_tensor(w.bias));
}

at::Tensor linear_activation(const at::Tensor& x_btd, const LinearWeights& up,
                             Activation activation) {
  const at::Tensor up_btf = linear(x_btd, up);
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(up_btf);
    case Activation::kGeluTanh:
      return at::gelu(up_btf, "tanh");
    case Activation::kRelu:
      return at::relu(up_btf);
    case Activation::kSwiglu: {
      const auto gate_and_value = up_btf.chunk(2, -1);
      return at::silu(gate_and_value[0]) * gate_and_value[1];
    }
  }
  TORCH_CHECK(false, "activation without an implementation");
}

at::Tensor layer_norm(const at::Tensor& x_btd, const NormWeights& norm, double eps) {
  return at::layer_norm(x_btd, {x_btd.size(-1)}, optional_tensor(norm.weight),
                        optional_tensor(norm.bias), eps);
}

std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x_btd, const at::Tensor& branch_btd,
                                           const NormWeights& norm, double eps) {
  at::Tensor sum_btd = x_btd + branch_btd;
  at::Tensor normed_btd = layer_norm(sum_btd, norm, eps);
  return {std::move(sum_btd), std::move(normed_btd)};
}

at::Tensor attention(const at::Tensor& qkv_bt3d, int64_t n_heads, const RotaryAngles& angles,
                     bool causal, double dropout) {
  const int64_t batch = qkv_bt3d.size(0), time = qkv_bt3d.size(1), width = qkv_bt3d.size(2) / 3;
  const auto qkv_bhtd =
      qkv_bt3d.view({batch, time, 3, n_heads, width / n_heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  at::Tensor q_bhtd = qkv_bhtd[0], k_bhtd = qkv_bhtd[1];
  if (angles.defined()) {
    // Under autocast scaled_dot_product_attention rounds the fp32 results again.
    q_bhtd = rotate(q_bhtd, angles);
    k_bhtd = rotate(k_bhtd, angles);
  }
  const at::Tensor out_bhtd =
      at::scaled_dot_product_attention(q_bhtd, k_bhtd, qkv_bhtd[2], {}, dropout, causal);
  return out_bhtd.transpose(1, 2).reshape({batch, time, width});
}

at::Tensor embed(const at::Tensor& tokens_bt, const at::Tensor& token_table,
                 const at::Tensor& position_table) {
  const at::Tensor tokens_btd = at::embedding(token_table, tokens_bt);
  if (!position_table.defined()) return tokens_btd;
  const int64_t time = tokens_bt.size(1);
  const bool whole =
      time == position_table.size(0);  // spares the backward pass a zero-filled table
  return tokens_btd + (whole ? position_table : position_table.narrow(0, 0, time));
}

at::Tensor dropout(const at::Tensor& x, double p) { return p > 0 ? at::dropout(x, p, true) : x; }

at::Tensor head_cross_entropy_sum(const at::Tensor& features, const LinearWeights& head,
                                  const at::Tensor& targets, double label_smoothing) {
  const at::Tensor logits = linear(features, head);
  const at::Tensor logits_nv = logits.view({-1, logits.size(-1)}).to(at::kFloat);
  return at::cross_entropy_loss(logits_nv, targets.reshape({-1}), {}, at::Reduction::Sum,
                                kIgnoreIndex, label_smoothing);
}

}  // namespace trainctl::plain
