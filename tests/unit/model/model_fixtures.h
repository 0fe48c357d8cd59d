// Small models and batches for the model tests.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <vector>

#include "trainctl/config/config.h"
#include "trainctl/model/model.h"

namespace trainctl {

inline ModelConfig small_gpt() {
  ModelConfig config;
  config.type = ModelType::kGpt;
  config.vocab_size = 31;
  config.d_model = 16;
  config.n_layers = 2;
  config.n_heads = 2;
  config.d_ff = 24;
  config.max_seq_len = 8;
  return config;
}

inline ModelConfig small_encoder() {
  ModelConfig config = small_gpt();
  config.type = ModelType::kEncoderClassifier;
  config.norm_order = NormOrder::kPost;
  config.activation = Activation::kRelu;
  config.tie_embeddings = false;
  return config;
}

inline std::unique_ptr<Model> build_model(const ModelConfig& config, uint64_t seed = 1) {
  at::set_num_threads(1);  // these sizes gain nothing from a second thread
  return make_model(config, BackendConfig{}, seed, at::kCPU);
}

// Every option of both models, alone and in the combinations that meet in the code.
inline std::vector<std::pair<std::string, ModelConfig>> all_small_models() {
  std::vector<std::pair<std::string, ModelConfig>> models;
  for (const NormOrder order : {NormOrder::kPre, NormOrder::kPost}) {
    const std::string suffix = order == NormOrder::kPre ? "_pre" : "_post";
    for (const Activation activation :
         {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSwiglu}) {
      for (const bool plain : {true, false}) {
        ModelConfig gpt = small_gpt();
        gpt.norm_order = order;
        gpt.activation = activation;
        gpt.tie_embeddings = gpt.bias = plain;
        gpt.position = plain ? PositionType::kLearned : PositionType::kRotary;
        models.emplace_back("gpt" + suffix + std::to_string(static_cast<int>(activation)) +
                                (plain ? "_learned_tied_bias" : "_rotary_untied_nobias"),
                            gpt);
      }
    }
    for (const Pooling pooling : {Pooling::kNone, Pooling::kMean, Pooling::kFirst}) {
      ModelConfig encoder = small_encoder();
      encoder.norm_order = order;
      encoder.pooling = pooling;
      encoder.n_classes = pooling == Pooling::kMean ? 3 : 0;
      models.emplace_back("encoder" + suffix + std::to_string(static_cast<int>(pooling)), encoder);
    }
  }
  return models;
}

inline at::Tensor tokens_of(const ModelConfig& config, int64_t batch = 3) {
  return (at::arange(batch * config.max_seq_len).view({batch, config.max_seq_len}) * 7 + 3)
      .remainder(config.vocab_size);
}

inline at::Tensor targets_of(const ModelConfig& config, int64_t batch = 3) {
  const bool pooled = config.pooling != Pooling::kNone;
  const int64_t classes = config.n_classes > 0 ? config.n_classes : config.vocab_size;
  const at::Tensor numbers =
      pooled ? at::arange(batch)
             : at::arange(batch * config.max_seq_len).view({batch, config.max_seq_len});
  return (numbers * 5 + 1).remainder(classes);
}

inline at::Tensor parameter_named(const Model& model, const std::string& name) {
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  TORCH_CHECK(false, "no parameter ", name);
}

}  // namespace trainctl
