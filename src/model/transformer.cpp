// Shape suffixes: b batch, t time, d model width.
#include "model/transformer.h"

#include <string>
#include <utility>

#include "model/ops/embed.h"
#include "model/ops/head_loss.h"
#include "model/plain_ops.h"
#include "trainctl/base/error.h"

namespace trainctl {

Transformer::Transformer(TransformerParts parts)
    : parts_(std::move(parts)), evaluation_stack_(parts_.stack) {
  parameters_ = std::move(parts_.parameters);
  aliases_ = std::move(parts_.aliases);
  targets_per_sequence_ = parts_.pooling != Pooling::kNone;
  evaluation_stack_.attention_dropout = 0;
  evaluation_stack_.residual_dropout = 0;
  evaluation_stack_.activation_dropout = 0;
}

at::Tensor Transformer::embed(const at::Tensor& tokens_bt) const {
  if (!parts_.stack.fused || !ops::serves_embed(parts_.token_table)) {
    return plain::embed(tokens_bt, parts_.token_table, parts_.position_table);
  }
  // A tied head's gradient is dense anyhow, and takes up the few rows of this one.
  const bool tied = parts_.head.weight.is_same(parts_.token_table);
  return ops::embed(tokens_bt, parts_.token_table, parts_.position_table, tied);
}

at::Tensor Transformer::features(const at::Tensor& tokens_bt) const {
  const int64_t time = tokens_bt.size(1);
  if (time > parts_.max_seq_len) {
    throw usage_error("a sequence of " + std::to_string(time) +
                      " tokens is longer than the model's " + std::to_string(parts_.max_seq_len) +
                      " positions: shorten it (data.seq_len) or raise model.max_seq_len");
  }
  at::Tensor x_btd = embed(tokens_bt);
  if (training_) x_btd = plain::dropout(x_btd, parts_.embedding_dropout);
  x_btd =
      transformer_stack(x_btd, parts_.blocks, parts_.final_norm,
                        training_ ? parts_.stack : evaluation_stack_, parts_.rotary.angles(time));
  switch (parts_.pooling) {
    case Pooling::kNone:
      return x_btd;
    case Pooling::kMean:
      return x_btd.mean(1);
    case Pooling::kFirst:
      return x_btd.select(1, 0);
  }
  TORCH_CHECK(false, "pooling without an implementation");
}

at::Tensor Transformer::logits(const at::Tensor& tokens_bt) {
  return plain::linear(features(tokens_bt), parts_.head);
}

at::Tensor Transformer::loss_sum(const at::Tensor& tokens_bt, const at::Tensor& targets,
                                 double label_smoothing) {
  const at::Tensor x = features(tokens_bt);
  if (parts_.stack.fused && ops::serves_head(x, parts_.head)) {
    return ops::head_cross_entropy_sum(x, parts_.head, targets, label_smoothing);
  }
  return plain::head_cross_entropy_sum(x, parts_.head, targets, label_smoothing);
}

}  // namespace trainctl
