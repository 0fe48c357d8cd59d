// The GPT decoder: GPT-2's architecture (Radford et al. 2019) as nanoGPT writes and initialises it,
// with rotary positions, post-norm and other activations as options (docs/models.md).
#include <cmath>
#include <string>

#include "model/parameter_builder.h"
#include "model/transformer.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

// Adds the parameters of one GPT under names that end in .weight and .bias. nanoGPT's rule:
// matrices and embeddings N(0, init_std), those that write into the residual stream init_std /
// sqrt(2 n_layers), biases 0, norms 1 and 0.
class GptAssembler {
 public:
  GptAssembler(const ModelConfig& config, uint64_t seed, at::Device device, TransformerParts* parts)
      : config_(config), build_(seed, device, &parts->parameters) {}

  at::Tensor table(const std::string& name, int64_t rows) {
    return build_.normal(name + ".weight", {rows, config_.d_model}, config_.init_std,
                         ParamKind::kEmbedding);
  }

  at::Tensor matrix(const std::string& name, int64_t out, int64_t in, double std) {
    return build_.normal(name + ".weight", {out, in}, std, ParamKind::kMatrix);
  }

  NormWeights norm(const std::string& name) {
    NormWeights weights;
    weights.weight = build_.constant(name + ".weight", {config_.d_model}, 1.0, ParamKind::kNorm);
    if (config_.bias) {
      weights.bias = build_.constant(name + ".bias", {config_.d_model}, 0.0, ParamKind::kNorm);
    }
    return weights;
  }

  BlockWeights block(const std::string& name) {
    const int64_t d = config_.d_model, ff = config_.d_ff;
    const bool gated = config_.activation == Activation::kSwiglu;
    const double residual_std =
        config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.n_layers));
    BlockWeights block;
    block.norm1 = norm(name + ".attention_norm");
    block.qkv = linear(name + ".attention.qkv", 3 * d, d, config_.init_std);
    block.attention_out = linear(name + ".attention.out", d, d, residual_std);
    block.norm2 = norm(name + ".mlp_norm");
    block.mlp_up = linear(name + (gated ? ".mlp.gate_up" : ".mlp.up"), gated ? 2 * ff : ff, d,
                          config_.init_std);
    block.mlp_down = linear(name + ".mlp.down", d, ff, residual_std);
    return block;
  }

 private:
  LinearWeights linear(const std::string& name, int64_t out, int64_t in, double std) {
    LinearWeights weights{matrix(name, out, in, std), {}};
    if (config_.bias) {
      weights.bias = build_.constant(name + ".bias", {out}, 0.0, ParamKind::kBias);
    }
    return weights;
  }

  const ModelConfig& config_;
  ParameterBuilder build_;
};

RotaryTable make_rotary_table(const ModelConfig& config, at::Device device) {
  const int64_t head_width = config.d_model / config.n_heads;
  if (head_width % 2 != 0) {
    throw usage_error(
        "model.position \"rotary\" turns pairs of dimensions, but model.d_model / model.n_heads "
        "= " +
        std::to_string(head_width) + " is odd: choose another number of heads");
  }
  return RotaryTable(head_width, config.max_seq_len, config.rope_theta, device);
}

}  // namespace

TransformerParts assemble_gpt(const ModelConfig& config, uint64_t seed, at::Device device) {
  TransformerParts parts;
  GptAssembler assemble(config, seed, device, &parts);
  parts.token_table = assemble.table("token_embedding", config.vocab_size);
  if (config.position == PositionType::kLearned) {
    parts.position_table = assemble.table("position_embedding", config.max_seq_len);
  } else {
    parts.rotary = make_rotary_table(config, device);
  }
  for (int64_t i = 0; i < config.n_layers; ++i) {
    parts.blocks.push_back(assemble.block("layers." + std::to_string(i)));
  }
  if (config.norm_order == NormOrder::kPre) parts.final_norm = assemble.norm("final_norm");
  if (config.tie_embeddings) {
    parts.head.weight = parts.token_table;
    parts.aliases.emplace_back("head.weight", "token_embedding.weight");
  } else {
    parts.head.weight = assemble.matrix("head", config.vocab_size, config.d_model, config.init_std);
  }

  parts.stack.causal = true;
  parts.stack.attention_dropout = config.dropout;
  parts.stack.residual_dropout = config.dropout;
  parts.embedding_dropout = config.dropout;
  return parts;
}

}  // namespace trainctl
