// Names, initial values and the checksum of parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model_fixtures.h"

namespace trainctl {
namespace {

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : model.parameters()) names.push_back(parameter.name);
  return names;
}

std::map<std::string, ParamKind> kinds_of(const Model& model) {
  std::map<std::string, ParamKind> kinds;
  for (const NamedParameter& parameter : model.parameters()) kinds[parameter.name] = parameter.kind;
  return kinds;
}

bool all_equal_to(const at::Tensor& tensor, double value) {
  return tensor.eq(value).all().item<bool>();
}

// Mean and deviation within five standard errors of N(0, std).
void expect_normal(const at::Tensor& tensor, double std, const std::string& name) {
  const auto n = static_cast<double>(tensor.numel());
  EXPECT_LT(std::abs(tensor.mean().item<double>()), 5 * std / std::sqrt(n)) << name;
  EXPECT_LT(std::abs(tensor.std().item<double>() / std - 1), 5 / std::sqrt(2 * n)) << name;
}

TEST(GptParameters, HaveTheDocumentedNamesInOrder) {
  ModelConfig config = small_gpt();
  config.n_layers = 1;
  EXPECT_THAT(
      names_of(*build_model(config)),
      ::testing::ElementsAre(
          "token_embedding.weight", "position_embedding.weight", "layers.0.attention_norm.weight",
          "layers.0.attention_norm.bias", "layers.0.attention.qkv.weight",
          "layers.0.attention.qkv.bias", "layers.0.attention.out.weight",
          "layers.0.attention.out.bias", "layers.0.mlp_norm.weight", "layers.0.mlp_norm.bias",
          "layers.0.mlp.up.weight", "layers.0.mlp.up.bias", "layers.0.mlp.down.weight",
          "layers.0.mlp.down.bias", "final_norm.weight", "final_norm.bias"));
  config.bias = config.tie_embeddings = false;
  config.position = PositionType::kRotary;
  config.activation = Activation::kSwiglu;
  config.norm_order = NormOrder::kPost;
  EXPECT_THAT(
      names_of(*build_model(config)),
      ::testing::ElementsAre("token_embedding.weight", "layers.0.attention_norm.weight",
                             "layers.0.attention.qkv.weight", "layers.0.attention.out.weight",
                             "layers.0.mlp_norm.weight", "layers.0.mlp.gate_up.weight",
                             "layers.0.mlp.down.weight", "head.weight"));
}

TEST(GptParameters, AreSortedIntoKindsForWeightDecay) {
  ModelConfig config = small_gpt();
  config.tie_embeddings = false;
  const auto kinds = kinds_of(*build_model(config));
  EXPECT_EQ(kinds.at("token_embedding.weight"), ParamKind::kEmbedding);
  EXPECT_EQ(kinds.at("position_embedding.weight"), ParamKind::kEmbedding);
  EXPECT_EQ(kinds.at("layers.1.mlp_norm.bias"), ParamKind::kNorm);
  EXPECT_EQ(kinds.at("layers.1.mlp.up.bias"), ParamKind::kBias);
  EXPECT_EQ(kinds.at("layers.1.attention.qkv.weight"), ParamKind::kMatrix);
  EXPECT_EQ(kinds.at("head.weight"), ParamKind::kMatrix);
}

TEST(GptParameters, StartAsNanoGptDoes) {
  ModelConfig config = small_gpt();
  config.d_model = 64;
  config.d_ff = 256;
  config.vocab_size = 500;
  config.max_seq_len = 64;
  config.n_layers = 8;
  config.tie_embeddings = false;
  config.init_std = 0.03;
  const auto model = build_model(config);
  for (const NamedParameter& parameter : model->parameters()) {
    const std::string& name = parameter.name;
    if (parameter.kind == ParamKind::kBias || name.ends_with("norm.bias")) {
      EXPECT_TRUE(all_equal_to(parameter.tensor, 0)) << name;
    } else if (parameter.kind == ParamKind::kNorm) {
      EXPECT_TRUE(all_equal_to(parameter.tensor, 1)) << name;
    } else {
      const bool residual =
          name.ends_with("attention.out.weight") || name.ends_with("mlp.down.weight");
      expect_normal(parameter.tensor, residual ? 0.03 / 4 : 0.03, name);
    }
  }
  EXPECT_FALSE(at::equal(parameter_named(*model, "layers.0.mlp.up.weight"),
                         parameter_named(*model, "layers.1.mlp.up.weight")));
}

TEST(EncoderParameters, HaveTheNamesOfThePyTorchModule) {
  ModelConfig config = small_encoder();
  config.n_layers = 1;
  EXPECT_THAT(
      names_of(*build_model(config)),
      ::testing::ElementsAre(
          "token_embedding.weight", "position_embedding.weight",
          "encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0.self_attn.in_proj_bias",
          "encoder.layers.0.self_attn.out_proj.weight", "encoder.layers.0.self_attn.out_proj.bias",
          "encoder.layers.0.linear1.weight", "encoder.layers.0.linear1.bias",
          "encoder.layers.0.linear2.weight", "encoder.layers.0.linear2.bias",
          "encoder.layers.0.norm1.weight", "encoder.layers.0.norm1.bias",
          "encoder.layers.0.norm2.weight", "encoder.layers.0.norm2.bias", "head.weight",
          "head.bias"));
}

TEST(EncoderParameters, LayersStartEqualButAreTheirOwn) {
  const auto model = build_model(small_encoder());
  for (const char* name : {"self_attn.in_proj_weight", "linear1.bias", "linear2.weight"}) {
    const at::Tensor first = parameter_named(*model, std::string("encoder.layers.0.") + name);
    const at::Tensor second = parameter_named(*model, std::string("encoder.layers.1.") + name);
    EXPECT_TRUE(at::equal(first, second)) << name;
    EXPECT_FALSE(first.is_alias_of(second)) << name;
  }
}

TEST(EncoderParameters, ReferenceModelHasItsKnownSize) {
  ModelConfig config = small_encoder();  // requirements R8
  config.vocab_size = 30522;
  config.d_model = 256;
  config.n_layers = 4;
  config.n_heads = 8;
  config.d_ff = 1024;
  config.max_seq_len = 512;
  int64_t count = 0;
  const auto model = build_model(config);
  for (const NamedParameter& parameter : model->parameters()) count += parameter.tensor.numel();
  // tables + 4 layers + head
  EXPECT_EQ(count, (30522 + 512) * 256 + 4 * 789760 + 256 * 30522 + 30522);
  expect_normal(parameter_named(*model, "token_embedding.weight"), 1.0, "token_embedding");
  expect_normal(parameter_named(*model, "position_embedding.weight"), 1.0, "position_embedding");
}

TEST(InitialValues, AreAFunctionOfTheSeed) {
  const ModelConfig config = small_gpt();
  EXPECT_EQ(parameter_hash(*build_model(config, 5)), parameter_hash(*build_model(config, 5)));
  EXPECT_NE(parameter_hash(*build_model(config, 5)), parameter_hash(*build_model(config, 6)));
}

TEST(InitialValues, DoNotTouchTheDefaultGenerator) {
  at::manual_seed(3);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(3);
  build_model(small_gpt());
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST(ParameterHash, SeesOneBitOfOneValueAndComesBack) {
  const auto model = build_model(small_gpt());
  const uint64_t before = parameter_hash(*model);
  at::Tensor bias = parameter_named(*model, "layers.1.mlp.down.bias");
  const at::NoGradGuard no_grad;
  bias[3] = 1e-45;
  EXPECT_NE(parameter_hash(*model), before);
  bias[3] = 0.0;
  EXPECT_EQ(parameter_hash(*model), before);
}

TEST(ParameterHash, SeesNamesAndShapes) {
  ModelConfig encoder = small_encoder();
  const uint64_t per_position = parameter_hash(*build_model(encoder));
  encoder.pooling = Pooling::kMean;  // same parameters
  EXPECT_EQ(parameter_hash(*build_model(encoder)), per_position);
  encoder.max_seq_len = 7;
  EXPECT_NE(parameter_hash(*build_model(encoder)), per_position);
}

}  // namespace
}  // namespace trainctl
