// The fused operations against the plain ones that autograd differentiates.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/ops/embed.h"
#include "model/ops/head_loss.h"
#include "model/plain_ops.h"
#include "trainctl/model/model.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

struct LossAndGradients {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
};

// Sizes that the fused operations serve, with odd numbers wherever they may be odd.
ModelConfig fusable_gpt() {
  ModelConfig config;
  config.type = ModelType::kGpt;
  config.vocab_size = 37;
  config.d_model = 32;
  config.n_layers = 2;
  config.n_heads = 2;
  config.d_ff = 48;
  config.max_seq_len = 70;
  return config;
}

std::vector<std::pair<std::string, ModelConfig>> fusable_models() {
  std::vector<std::pair<std::string, ModelConfig>> models;
  for (const NormOrder order : {NormOrder::kPre, NormOrder::kPost}) {
    for (const Activation activation :
         {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
      for (const bool bias : {true, false}) {
        ModelConfig gpt = fusable_gpt();
        gpt.norm_order = order;
        gpt.activation = activation;
        gpt.bias = gpt.tie_embeddings = bias;
        models.emplace_back("gpt order " + std::to_string(static_cast<int>(order)) +
                                " activation " + std::to_string(static_cast<int>(activation)) +
                                (bias ? " bias tied" : " no bias, untied"),
                            gpt);
      }
    }
    ModelConfig encoder = fusable_gpt();
    encoder.type = ModelType::kEncoderClassifier;
    encoder.norm_order = order;
    encoder.activation = Activation::kRelu;
    encoder.tie_embeddings = false;
    models.emplace_back("encoder order " + std::to_string(static_cast<int>(order)), encoder);
  }
  return models;
}

std::unique_ptr<Model> build_with(const ModelConfig& config, bool fused) {
  BackendConfig backend;
  backend.attention = fused ? AttentionBackend::kAuto : AttentionBackend::kMath;
  return make_model(config, backend, 3, at::kCPU);
}

at::Tensor tokens_for(const ModelConfig& config, int64_t time) {
  return (at::arange(3 * time).view({3, time}) * 11 + 5).remainder(config.vocab_size);
}

// Biases start at zero and norms at one, where much would go unnoticed.
void perturb(Model& model) {
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  for (const NamedParameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    tensor.add_(at::randn(tensor.sizes(), generator, tensor.options().requires_grad(false)), 0.1);
  }
}

LossAndGradients differentiate(Model& model, const ModelConfig& config, Dtype dtype, int64_t time) {
  const at::Tensor tokens_bt = tokens_for(config, time);
  at::Tensor targets_bt = (tokens_bt * 3 + 1).remainder(config.vocab_size);
  targets_bt[1].fill_(kIgnoreIndex);
  LossAndGradients result;
  {
    const AutocastGuard autocast(dtype, at::kCPU);
    result.loss = model.loss_sum(tokens_bt, targets_bt, 0.1);
  }
  result.loss.backward();
  for (const NamedParameter& parameter : model.parameters()) {
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    at::Tensor grad = parameter.tensor.grad().to_dense();
    if (parameter.name.find("qkv.bias") != std::string::npos ||
        parameter.name.find("in_proj_bias") != std::string::npos) {
      // The gradient of a key's bias is zero but for rounding.
      grad = at::cat(
          {grad.narrow(0, 0, config.d_model), grad.narrow(0, 2 * config.d_model, config.d_model)});
    }
    result.gradients[parameter.name] = grad.clone();
    parameter.tensor.mutable_grad().reset();
  }
  return result;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / std::max(b.norm().item<double>(), 1e-12);
}

TEST(FusedOps, Fp32LossAndGradientsEqualThePlainOnes) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const auto& [name, config] : fusable_models()) {
      for (const int64_t time : {5, 70}) {
        auto fused_model = build_with(config, true), plain_model = build_with(config, false);
        perturb(*fused_model);
        perturb(*plain_model);
        const auto fused = differentiate(*fused_model, config, Dtype::kFp32, time);
        const auto plain = differentiate(*plain_model, config, Dtype::kFp32, time);
        EXPECT_LT(relative_difference(fused.loss, plain.loss), 1e-6) << name;
        for (const auto& [parameter, grad] : plain.gradients) {
          EXPECT_LT(relative_difference(fused.gradients.at(parameter), grad), 1e-5)
              << name << ", " << parameter << ", time " << time;
        }
      }
    }
  }
  at::set_num_threads(1);
}

TEST(FusedOps, Bf16StaysAsCloseToFp32AsAutocastItself) {
  for (const auto& [name, config] : fusable_models()) {
    auto fused_model = build_with(config, true), plain_model = build_with(config, false);
    perturb(*fused_model);
    perturb(*plain_model);
    const auto exact = differentiate(*plain_model, config, Dtype::kFp32, 70);
    const auto autocast = differentiate(*plain_model, config, Dtype::kBf16, 70);
    const auto fused = differentiate(*fused_model, config, Dtype::kBf16, 70);
    EXPECT_LT(relative_difference(fused.loss, exact.loss), 2e-3) << name;
    for (const auto& [parameter, grad] : exact.gradients) {
      const double theirs = relative_difference(autocast.gradients.at(parameter), grad);
      const double ours = relative_difference(fused.gradients.at(parameter), grad);
      EXPECT_GT(ours, 1e-5) << name << ", " << parameter << ": not computed in bf16";
      EXPECT_LT(ours, 2 * theirs + 2e-3) << name << ", " << parameter;
    }
  }
}

TEST(FusedOps, RepeatBitForBitAtAGivenThreadCount) {
  ModelConfig config = fusable_gpt();
  config.dropout = 0.2;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    auto model = build_with(config, true);
    at::manual_seed(5);
    const auto first = differentiate(*model, config, Dtype::kFp32, 70);
    at::manual_seed(5);
    const auto second = differentiate(*model, config, Dtype::kFp32, 70);
    EXPECT_TRUE(at::equal(first.loss, second.loss));
    for (const auto& [parameter, grad] : first.gradients) {
      EXPECT_TRUE(at::equal(second.gradients.at(parameter), grad)) << parameter;
    }
    const auto other_seed = differentiate(*model, config, Dtype::kFp32, 70);
    EXPECT_FALSE(at::equal(first.loss, other_seed.loss));
  }
  at::set_num_threads(1);
}

// Along a direction, with the same masks: (loss(θ + εv) − loss(θ − εv)) / 2ε = ⟨gradient, v⟩.
TEST(FusedOps, DropoutGradientsAreThoseOfTheMaskedLoss) {
  at::set_num_threads(1);
  for (auto [name, config] : fusable_models()) {
    config.dropout = 0.3;
    auto model = build_with(config, true);
    const auto masked_loss = [&] {
      at::manual_seed(11);
      return differentiate(*model, config, Dtype::kFp32, 20);
    };
    const auto at_point = masked_loss();
    auto generator = at::make_generator<at::CPUGeneratorImpl>(13);
    double slope = 0;
    std::vector<at::Tensor> direction;
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : model->parameters()) {
      const at::Tensor grad = parameter.name.find("qkv.bias") == std::string::npos &&
                                      parameter.name.find("in_proj_bias") == std::string::npos
                                  ? at_point.gradients.at(parameter.name)
                                  : at::Tensor();
      direction.push_back(grad.defined() ? grad / grad.norm() : at::zeros_like(parameter.tensor));
      if (grad.defined()) slope += grad.norm().item<double>();
    }
    const auto move = [&](double by) {
      for (size_t i = 0; i < direction.size(); ++i) {
        model->parameters()[i].tensor.detach().add_(direction[i], by);
      }
    };
    const double step = 2e-3;
    const auto loss_at = [&](double by) {
      move(by);
      const at::AutoGradMode grad_mode(true);
      const double loss = masked_loss().loss.item<double>();
      move(-by);
      return loss;
    };
    const double numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
    EXPECT_NEAR(numeric / slope, 1.0, 0.02) << name;
  }
}

TEST(FusedOps, DropoutKeepsTheExpectedShareAndOnlyWhileTraining) {
  ModelConfig config = fusable_gpt();
  config.dropout = 0.5;
  auto model = build_with(config, true);
  auto without = build_with(fusable_gpt(), true);
  model->set_training(false);
  const at::Tensor tokens = tokens_for(config, 20);
  EXPECT_TRUE(at::equal(model->logits(tokens), without->logits(tokens)));
  model->set_training(true);
  EXPECT_FALSE(at::allclose(model->logits(tokens), without->logits(tokens)));
}

TEST(HeadLoss, ChunksSmoothingAndIgnoredTargetsEqualTheFullLoss) {
  const int64_t rows = 500, classes = 70001, width = 16;
  for (const bool with_bias : {true, false}) {
    for (const double smoothing : {0.0, 0.2}) {
      at::manual_seed(1);
      const at::Tensor x = at::randn({rows, width}), weight = at::randn({classes, width}) * 0.3;
      const at::Tensor bias = with_bias ? at::randn({classes}) : at::Tensor();
      const at::Tensor targets = at::arange(rows).mul(137).remainder(classes).masked_fill(
          at::arange(rows).remainder(5).eq(0), kIgnoreIndex);
      const auto in_type = [&](at::ScalarType type) {
        std::vector<at::Tensor> leaves;
        for (const at::Tensor& tensor : {x, weight, bias}) {
          if (tensor.defined()) leaves.push_back(tensor.to(type, false, true).requires_grad_());
        }
        return leaves;
      };
      const auto fused = in_type(at::kFloat), exact = in_type(at::kDouble);
      const at::Tensor fused_loss = ops::head_cross_entropy_sum(
          fused[0], {fused[1], with_bias ? fused[2] : at::Tensor()}, targets, smoothing);
      const at::Tensor exact_loss = at::cross_entropy_loss(
          at::linear(exact[0], exact[1], with_bias ? exact[2] : at::Tensor()), targets, {},
          at::Reduction::Sum, kIgnoreIndex, smoothing);
      (fused_loss / 400).backward();
      (exact_loss / 400).backward();
      EXPECT_LT(relative_difference(fused_loss, exact_loss), 1e-6);
      for (size_t i = 0; i < fused.size(); ++i) {
        EXPECT_LT(relative_difference(fused[i].grad(), exact[i].grad()), 2e-6) << i;
      }
    }
  }
}

TEST(HeadLoss, WithoutGradientGivesTheSameLoss) {
  const at::Tensor x = at::randn({10, 16}).requires_grad_(),
                   weight = at::randn({33, 16}).requires_grad_();
  const at::Tensor targets = at::arange(10);
  const at::Tensor with = ops::head_cross_entropy_sum(x, {weight, {}}, targets, 0.0);
  const at::NoGradGuard no_grad;
  EXPECT_FLOAT_EQ(ops::head_cross_entropy_sum(x, {weight, {}}, targets, 0.0).item<float>(),
                  with.item<float>());
}

TEST(HeadLoss, NonFiniteLogitsReachTheLoss) {
  at::Tensor x = at::randn({4, 16});
  x[2][3] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor loss =
      ops::head_cross_entropy_sum(x, {at::randn({40, 16}), {}}, at::arange(4), 0.0);
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

TEST(HeadLoss, RefusesTargetsOutsideTheClasses) {
  const at::Tensor x = at::randn({2, 16}), weight = at::randn({8, 16});
  EXPECT_THROW(ops::head_cross_entropy_sum(x, {weight, {}}, at::tensor({1, 8}, at::kLong), 0.0),
               c10::Error);
  EXPECT_THROW(ops::head_cross_entropy_sum(x, {weight, {}}, at::tensor({-1, 2}, at::kLong), 0.0),
               c10::Error);
}

TEST(Embed, SparseGradientHoldsTheSameSums) {
  const at::Tensor tokens = at::tensor({1, 2, 1, 5, 0, 1}, at::kLong).view({2, 3});
  std::vector<at::Tensor> tables, positions;
  for (const bool sparse : {true, false}) {
    const at::Tensor table = at::ones({7, 4}).requires_grad_(),
                     position = at::ones({5, 4}).requires_grad_();
    const at::Tensor out = ops::embed(tokens, table, position, sparse);
    (out * at::arange(24).view({2, 3, 4})).sum().backward();
    EXPECT_EQ(table.grad().is_sparse(), sparse);
    tables.push_back(table.grad().to_dense());
    positions.push_back(position.grad());
  }
  EXPECT_TRUE(at::equal(tables[0], tables[1]));
  EXPECT_TRUE(at::equal(positions[0], positions[1]));
  EXPECT_EQ(tables[1][1][0].item<float>(), 0 + 8 + 20);
  EXPECT_EQ(positions[1][0][1].item<float>(), 1 + 13);
  EXPECT_EQ(positions[1][4].abs().sum().item<float>(), 0);
}

TEST(Embed, RefusesTokensOutsideTheTable) {
  const at::Tensor table = at::ones({7, 4});
  EXPECT_THROW(ops::embed(at::tensor({{7}}, at::kLong), table, {}, false), c10::Error);
  EXPECT_THROW(ops::embed(at::tensor({{-1}}, at::kLong), table, {}, false), c10::Error);
}

}  // namespace
}  // namespace trainctl
