// Token embedding, a stack of blocks, a head: every model of this project, by what it is assembled
// from.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/rotary.h"
#include "model/transformer_stack.h"
#include "model/weights.h"
#include "trainctl/model/model.h"

namespace trainctl {

struct TransformerParts {
  at::Tensor token_table;     // [vocab_size, d_model]
  at::Tensor position_table;  // [max_seq_len, d_model], or undefined
  RotaryTable rotary;         // empty unless positions are rotary
  std::vector<BlockWeights> blocks;
  NormWeights final_norm;  // undefined: none
  LinearWeights head;

  StackOptions stack;  // with the dropout rates of training
  double embedding_dropout = 0;
  Pooling pooling = Pooling::kNone;
  int64_t max_seq_len = 0;

  std::vector<NamedParameter> parameters;
  std::vector<std::pair<std::string, std::string>> aliases;
};

class Transformer final : public Model {
 public:
  explicit Transformer(TransformerParts parts);
  at::Tensor logits(const at::Tensor& tokens_bt) override;
  at::Tensor loss_sum(const at::Tensor& tokens_bt, const at::Tensor& targets,
                      double label_smoothing) override;
  void set_training(bool training) override { training_ = training; }

 private:
  at::Tensor embed(const at::Tensor& tokens_bt) const;
  at::Tensor features(const at::Tensor& tokens_bt) const;  // what the head reads

  TransformerParts parts_;
  StackOptions evaluation_stack_;  // parts_.stack without dropout
  bool training_ = true;
};

// One factory per model type (registry.cpp). They throw usage_error for a config the model cannot
// have.
TransformerParts assemble_gpt(const ModelConfig& config, uint64_t seed, at::Device device);
TransformerParts assemble_encoder(const ModelConfig& config, uint64_t seed, at::Device device);

}  // namespace trainctl
