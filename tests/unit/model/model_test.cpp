#include "trainctl/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "model_fixtures.h"
#include "support/testing.h"
#include "trainctl/base/error.h"
#include "trainctl/plan/plan.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

std::string refusal_of(const ModelConfig& config) {
  return refusal_of(ExitCode::kUsage, [&] { build_model(config); });
}

class EveryModel : public ::testing::TestWithParam<std::pair<std::string, ModelConfig>> {};
INSTANTIATE_TEST_SUITE_P(Small, EveryModel, ::testing::ValuesIn(all_small_models()),
                         [](const auto& row) { return row.param.first; });

TEST_P(EveryModel, HasAsManyParametersAsThePlanCounts) {
  const ModelConfig& config = GetParam().second;
  int64_t count = 0;
  std::set<std::string> names;
  const auto model = build_model(config);
  for (const NamedParameter& parameter : model->parameters()) {
    count += parameter.tensor.numel();
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " twice";
    EXPECT_TRUE(parameter.tensor.is_leaf() && parameter.tensor.requires_grad()) << parameter.name;
    EXPECT_EQ(parameter.tensor.scalar_type(), at::kFloat) << parameter.name;
  }
  EXPECT_EQ(count, count_parameters(config));
}

TEST_P(EveryModel, LogitsHaveTheDocumentedShapeAlsoForShorterSequences) {
  const ModelConfig& config = GetParam().second;
  const auto model = build_model(config);
  const int64_t outputs = config.n_classes > 0 ? config.n_classes : config.vocab_size;
  for (const int64_t time : {int64_t{1}, int64_t{5}, config.max_seq_len}) {
    const at::Tensor logits = model->logits(tokens_of(config).narrow(1, 0, time));
    if (config.pooling == Pooling::kNone) {
      EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{3, time, outputs}));
    } else {
      EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{3, outputs}));
    }
  }
  EXPECT_EQ(model->targets_per_sequence(), config.pooling != Pooling::kNone);
}

TEST_P(EveryModel, GradientReachesEveryParameter) {
  const ModelConfig& config = GetParam().second;
  const auto model = build_model(config);
  model->loss_sum(tokens_of(config), targets_of(config), 0.1).backward();
  for (const NamedParameter& parameter : model->parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_GT(parameter.tensor.grad().abs().max().item<float>(), 0.0F) << parameter.name;
  }
}

TEST_P(EveryModel, LossIsTheSumOverValidTargets) {
  const ModelConfig& config = GetParam().second;
  const auto model = build_model(config);
  const at::Tensor tokens = tokens_of(config);
  at::Tensor targets = targets_of(config);
  targets.view(-1)[1] = kIgnoreIndex;
  const at::Tensor log_p = at::log_softmax(model->logits(tokens), -1).view({targets.numel(), -1});
  double expected = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const auto target = targets.view(-1)[i].item<int64_t>();
    if (target == kIgnoreIndex) continue;
    expected -= 0.9 * log_p[i][target].item<double>() + 0.1 * log_p[i].mean().item<double>();
  }
  const at::Tensor loss = model->loss_sum(tokens, targets, 0.1);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_NEAR(loss.item<double>() / expected, 1.0, 1e-5);
}

TEST_P(EveryModel, LossOfIgnoredTargetsIsZeroWithFiniteGradients) {
  const ModelConfig& config = GetParam().second;
  const auto model = build_model(config);
  const at::Tensor targets = at::full_like(targets_of(config), kIgnoreIndex);
  const at::Tensor loss = model->loss_sum(tokens_of(config), targets, 0.1);
  loss.backward();
  EXPECT_EQ(loss.item<float>(), 0.0F);
  for (const NamedParameter& parameter : model->parameters()) {
    EXPECT_EQ(parameter.tensor.grad().abs().max().item<float>(), 0.0F) << parameter.name;
  }
}

TEST_P(EveryModel, DropoutActsInTrainingOnly) {
  ModelConfig config = GetParam().second;
  config.dropout = 0.3;
  const auto model = build_model(config);
  const at::Tensor tokens = tokens_of(config);
  at::manual_seed(7);
  const at::Tensor first = model->logits(tokens);
  const at::Tensor second = model->logits(tokens);
  EXPECT_FALSE(at::equal(first, second));
  at::manual_seed(7);
  EXPECT_TRUE(at::equal(first, model->logits(tokens)));  // a function of the device's generator

  model->set_training(false);
  const at::Tensor quiet = model->logits(tokens);
  EXPECT_TRUE(at::equal(quiet, model->logits(tokens)));
  config.dropout = 0;
  EXPECT_TRUE(at::equal(quiet, build_model(config)->logits(tokens)));
}

TEST_P(EveryModel, RunsUnderAutocastNearItsFp32Values) {
  const ModelConfig& config = GetParam().second;
  const auto model = build_model(config);
  const at::Tensor tokens = tokens_of(config), targets = targets_of(config);
  const double exact = model->loss_sum(tokens, targets, 0).item<double>();
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp16}) {
    at::Tensor loss;
    {
      const AutocastGuard autocast(dtype, at::kCPU);
      EXPECT_EQ(model->logits(tokens).scalar_type(),
                dtype == Dtype::kBf16 ? at::kBFloat16 : at::kHalf);
      loss = model->loss_sum(tokens, targets, 0);
    }
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(loss.item<double>() / exact, 1.0, dtype == Dtype::kBf16 ? 2e-2 : 2e-3);
    for (const NamedParameter& parameter : model->parameters())
      parameter.tensor.mutable_grad() = at::Tensor();
    loss.backward();
    for (const NamedParameter& parameter : model->parameters()) {
      ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
      EXPECT_EQ(parameter.tensor.grad().scalar_type(), at::kFloat) << parameter.name;
      EXPECT_TRUE(at::isfinite(parameter.tensor.grad()).all().item<bool>()) << parameter.name;
    }
  }
}

TEST(Gpt, LaterTokensDoNotChangeEarlierLogits) {
  for (const auto& [name, config] : all_small_models()) {
    const bool causal = config.type == ModelType::kGpt;
    if (!causal && config.pooling != Pooling::kNone) continue;
    const auto model = build_model(config);
    const at::Tensor tokens = tokens_of(config);
    at::Tensor changed = tokens.clone();
    changed.narrow(1, 5, 3).add_(1).remainder_(config.vocab_size);
    const at::Tensor before = model->logits(tokens), after = model->logits(changed);
    EXPECT_EQ(at::allclose(before.narrow(1, 0, 5), after.narrow(1, 0, 5), 1e-6, 1e-6), causal)
        << name;
    EXPECT_FALSE(at::allclose(before.narrow(1, 5, 3), after.narrow(1, 5, 3))) << name;
  }
}

TEST(Gpt, TiedHeadIsTheEmbeddingAndNamedAsAnAlias) {
  ModelConfig config = small_gpt();
  const auto tied = build_model(config);
  EXPECT_THAT(tied->aliases(),
              ::testing::ElementsAre(::testing::Pair("head.weight", "token_embedding.weight")));
  {
    const at::NoGradGuard no_grad;
    parameter_named(*tied, "token_embedding.weight").zero_();
  }
  EXPECT_EQ(tied->logits(tokens_of(config)).abs().max().item<float>(), 0.0F);

  config.tie_embeddings = false;
  const auto untied = build_model(config);
  EXPECT_TRUE(untied->aliases().empty());
  EXPECT_EQ(parameter_named(*untied, "head.weight").sizes(), (std::vector<int64_t>{31, 16}));
}

TEST(Gpt, RotaryLogitsDependOnDistancesOnly) {
  // One token at every position: only the distances between positions could tell them apart, and
  // equal values mix to the same value.
  ModelConfig config = small_gpt();
  config.position = PositionType::kRotary;
  const auto model = build_model(config);
  const at::Tensor logits = model->logits(at::full({1, 8}, 4, at::kLong));
  EXPECT_TRUE(at::allclose(logits.select(1, 0), logits.select(1, 7), 1e-4, 1e-5));
  // But an order of different tokens is seen.
  const at::Tensor forward = at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4});
  const at::Tensor swapped = at::tensor({2, 1, 3, 4}, at::kLong).view({1, 4});
  EXPECT_FALSE(at::allclose(model->logits(forward).select(1, 3),
                            model->logits(swapped).select(1, 3), 1e-5, 1e-6));
}

TEST(Model, RefusesASequenceLongerThanItsPositions) {
  for (const PositionType position : {PositionType::kLearned, PositionType::kRotary}) {
    ModelConfig config = small_gpt();
    config.position = position;
    const auto model = build_model(config);
    try {
      model->logits(at::zeros({1, 9}, at::kLong));
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("9 tokens"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("max_seq_len"));
    }
  }
}

TEST(Model, RefusesWhatItCannotBeNamingTheKey) {
  ModelConfig heads = small_gpt();
  heads.n_heads = 3;
  EXPECT_THAT(refusal_of(heads), ::testing::HasSubstr("model.n_heads 3"));
  ModelConfig odd = small_gpt();
  odd.n_heads = 16;
  odd.position = PositionType::kRotary;
  EXPECT_THAT(refusal_of(odd), ::testing::HasSubstr("rotary"));
  ModelConfig swiglu = small_encoder();
  swiglu.activation = Activation::kSwiglu;
  EXPECT_THAT(refusal_of(swiglu), ::testing::HasSubstr("model.activation"));
  ModelConfig rotary = small_encoder();
  rotary.position = PositionType::kRotary;
  EXPECT_THAT(refusal_of(rotary), ::testing::HasSubstr("model.position"));
}

}  // namespace
}  // namespace trainctl
