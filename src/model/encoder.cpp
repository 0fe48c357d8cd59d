// The reference encoder: torch.nn.TransformerEncoder over summed token and position embeddings,
// with a linear head at every position or over the pooled sequence. Parameters have the names and
// shapes of the PyTorch module's state dict (docs/models.md), so that one loads into the other as
// it lies.
#include <cmath>
#include <string>

#include "model/parameter_builder.h"
#include "model/transformer.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

void check_encoder(const ModelConfig& config) {
  if (config.position != PositionType::kLearned) {
    throw usage_error(
        "model.type \"encoder_classifier\" has learned positions: set model.position to "
        "\"learned\", or "
        "model.type to \"gpt\" for rotary ones");
  }
  if (config.activation == Activation::kSwiglu) {
    throw usage_error(
        "model.type \"encoder_classifier\" has no SwiGLU: set model.activation to relu, gelu or "
        "gelu_tanh, or model.type to \"gpt\"");
  }
}

// PyTorch's defaults. nn.Linear: kaiming_uniform_(a = √5) for the weight, which is U(±1/√in), and
// the same bound for the bias. nn.MultiheadAttention: xavier_uniform_ for in_proj_weight, both
// biases 0.
class EncoderAssembler {
 public:
  EncoderAssembler(const ModelConfig& config, uint64_t seed, at::Device device,
                   TransformerParts* parts)
      : d_(config.d_model), ff_(config.d_ff), build_(seed, device, &parts->parameters) {}

  at::Tensor table(const std::string& name, int64_t rows) {
    return build_.normal(name + ".weight", {rows, d_}, 1.0, ParamKind::kEmbedding);
  }

  LinearWeights linear(const std::string& name, int64_t out, int64_t in) {
    LinearWeights w;
    w.weight = build_.uniform(name + ".weight", {out, in}, linear_bound(in), ParamKind::kMatrix);
    w.bias = build_.uniform(name + ".bias", {out}, linear_bound(in), ParamKind::kBias);
    return w;
  }

  BlockWeights first_block(const std::string& name) {
    BlockWeights block;
    // xavier: √(6 / (in + out)), of the fused matrix.
    const double xavier = std::sqrt(6.0 / static_cast<double>(d_ + 3 * d_));
    const std::string attention = name + ".self_attn.";
    block.qkv.weight =
        build_.uniform(attention + "in_proj_weight", {3 * d_, d_}, xavier, ParamKind::kMatrix);
    block.qkv.bias = build_.constant(attention + "in_proj_bias", {3 * d_}, 0.0, ParamKind::kBias);
    block.attention_out.weight = build_.uniform(attention + "out_proj.weight", {d_, d_},
                                                linear_bound(d_), ParamKind::kMatrix);
    block.attention_out.bias =
        build_.constant(attention + "out_proj.bias", {d_}, 0.0, ParamKind::kBias);
    block.mlp_up = linear(name + ".linear1", ff_, d_);
    block.mlp_down = linear(name + ".linear2", d_, ff_);
    block.norm1 = norm(name + ".norm1");
    block.norm2 = norm(name + ".norm2");
    return block;
  }

  // nn.TransformerEncoder deep-copies the layer it is given: all layers start equal.
  BlockWeights copied_block(const BlockWeights& first, const std::string& name) {
    BlockWeights block;
    const std::string attention = name + ".self_attn.";
    block.qkv = {copy(first.qkv.weight, attention + "in_proj_weight", ParamKind::kMatrix),
                 copy(first.qkv.bias, attention + "in_proj_bias", ParamKind::kBias)};
    block.attention_out = copy_linear(first.attention_out, attention + "out_proj");
    block.mlp_up = copy_linear(first.mlp_up, name + ".linear1");
    block.mlp_down = copy_linear(first.mlp_down, name + ".linear2");
    block.norm1 = norm(name + ".norm1");
    block.norm2 = norm(name + ".norm2");
    return block;
  }

 private:
  static double linear_bound(int64_t in) { return 1.0 / std::sqrt(static_cast<double>(in)); }

  NormWeights norm(const std::string& name) {
    NormWeights w;
    w.weight = build_.constant(name + ".weight", {d_}, 1.0, ParamKind::kNorm);
    w.bias = build_.constant(name + ".bias", {d_}, 0.0, ParamKind::kNorm);
    return w;
  }

  at::Tensor copy(const at::Tensor& source, const std::string& name, ParamKind kind) {
    return build_.copy_of(source, name, kind);
  }

  LinearWeights copy_linear(const LinearWeights& source, const std::string& name) {
    LinearWeights w;
    w.weight = copy(source.weight, name + ".weight", ParamKind::kMatrix);
    w.bias = copy(source.bias, name + ".bias", ParamKind::kBias);
    return w;
  }

  int64_t d_, ff_;
  ParameterBuilder build_;
};

}  // namespace

TransformerParts assemble_encoder(const ModelConfig& config, uint64_t seed, at::Device device) {
  check_encoder(config);
  TransformerParts parts;
  EncoderAssembler assemble(config, seed, device, &parts);
  parts.token_table = assemble.table("token_embedding", config.vocab_size);
  parts.position_table = assemble.table("position_embedding", config.max_seq_len);
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const std::string name = "encoder.layers." + std::to_string(i);
    parts.blocks.push_back(i == 0 ? assemble.first_block(name)
                                  : assemble.copied_block(parts.blocks.front(), name));
  }
  const int64_t outputs = config.n_classes > 0 ? config.n_classes : config.vocab_size;
  parts.head = assemble.linear("head", outputs, config.d_model);

  parts.stack.causal = false;
  parts.stack.attention_dropout = config.dropout;
  parts.stack.residual_dropout = config.dropout;
  parts.stack.activation_dropout = config.dropout;  // nn.TransformerEncoderLayer.dropout
  parts.pooling = config.pooling;
  return parts;
}

}  // namespace trainctl
