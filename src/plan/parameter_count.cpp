// Counts the parameters that src/model builds, term by term; a unit test of the model layer holds
// both against each other.
#include "trainctl/plan/plan.h"

namespace trainctl {
namespace {

int64_t linear(int64_t in, int64_t out, bool bias) { return in * out + (bias ? out : 0); }

int64_t norm(int64_t width, bool bias) { return bias ? 2 * width : width; }

int64_t block(const ModelConfig& model, bool bias) {
  const int64_t d = model.d_model;
  const int64_t ff = model.d_ff;
  // SwiGLU's up projection holds the gate and the value.
  const int64_t up = model.activation == Activation::kSwiglu ? 2 * ff : ff;
  return linear(d, 3 * d, bias) + linear(d, d, bias)  // attention
         + linear(d, up, bias) + linear(ff, d, bias)  // MLP
         + 2 * norm(d, bias);
}

int64_t count_gpt(const ModelConfig& model) {
  const int64_t embedding = model.vocab_size * model.d_model;
  const int64_t head = model.tie_embeddings ? 0 : embedding;
  // Post-norm blocks end normalised; pre-norm ones need a norm before the head.
  const int64_t final_norm =
      model.norm_order == NormOrder::kPre ? norm(model.d_model, model.bias) : 0;
  const int64_t positions =
      model.position == PositionType::kLearned ? model.max_seq_len * model.d_model : 0;
  return embedding + positions + model.n_layers * block(model, model.bias) + final_norm + head;
}

// torch.nn.TransformerEncoder's parameters: biases everywhere, learned positions, no final norm.
int64_t count_encoder_classifier(const ModelConfig& model) {
  const int64_t classes = model.n_classes > 0 ? model.n_classes : model.vocab_size;
  return (model.vocab_size + model.max_seq_len) * model.d_model +
         model.n_layers * block(model, /*bias=*/true) +
         linear(model.d_model, classes, /*bias=*/true);
}

}  // namespace

int64_t count_parameters(const ModelConfig& model) {
  switch (model.type) {
    case ModelType::kGpt:
      return count_gpt(model);
    case ModelType::kEncoderClassifier:
      return count_encoder_classifier(model);
  }
  return 0;
}

}  // namespace trainctl
