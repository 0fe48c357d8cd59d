// The table of model types. A new one is a file with its factory and a row here.
#include <array>
#include <string>

#include "model/transformer.h"
#include "trainctl/base/error.h"
#include "trainctl/model/model.h"

namespace trainctl {
namespace {

struct ModelRow {
  ModelType type;
  TransformerParts (*assemble)(const ModelConfig&, uint64_t seed, at::Device);
};

constexpr std::array kModels = {
    ModelRow{ModelType::kGpt, assemble_gpt},
    ModelRow{ModelType::kEncoderClassifier, assemble_encoder},
};

void check_shape(const ModelConfig& config) {
  if (config.n_heads < 1 || config.d_model % config.n_heads != 0) {
    throw usage_error("model.n_heads " + std::to_string(config.n_heads) +
                      " does not divide model.d_model " + std::to_string(config.d_model) +
                      ": every head takes an equal share of the width");
  }
  TORCH_CHECK(config.d_ff > 0, "model.d_ff was not resolved when the config was read");
  TORCH_CHECK(config.n_layers > 0 && config.vocab_size > 0 && config.max_seq_len > 0,
              "sizes below 1 passed the config's checks");
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config, const BackendConfig& backend,
                                  uint64_t seed, at::Device device) {
  check_shape(config);
  for (const ModelRow& row : kModels) {
    if (row.type != config.type) continue;
    TransformerParts parts = row.assemble(config, seed, device);
    parts.stack.n_heads = config.n_heads;
    parts.stack.norm_order = config.norm_order;
    parts.stack.activation = config.activation;
    parts.stack.norm_eps = config.norm_eps;
    // A back end asked for by name is the one that runs.
    parts.stack.fused = backend.attention == AttentionBackend::kAuto;
    parts.max_seq_len = config.max_seq_len;
    return std::make_unique<Transformer>(std::move(parts));
  }
  TORCH_CHECK(false, "model type without a row in the table of models");
}

}  // namespace trainctl
