// tests/reference/optimizer_test.py holds whole runs against torch.optim.
#include "trainctl/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "support/testing.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OptimizerTest : public testing::Test {
 protected:
  OptimizerTest() {
    config_.weight_decay = 0.1;
    config_.learning_rate = 0.01;
    at::manual_seed(5);
    add("embed.weight", {6, 4}, ParamKind::kEmbedding);
    add("layers.0.mlp.weight", {4, 4}, ParamKind::kMatrix);
    add("layers.0.mlp.bias", {4}, ParamKind::kBias);
    add("layers.1.mlp.weight", {4, 4}, ParamKind::kMatrix);
  }

  void add(const std::string& name, at::IntArrayRef shape, ParamKind kind) {
    parameters_.push_back({name, at::randn(shape).requires_grad_(), kind});
  }

  void set_gradients(uint64_t seed) {
    at::manual_seed(seed);
    for (NamedParameter& parameter : parameters_) {
      parameter.tensor.mutable_grad() = at::randn(parameter.tensor.sizes());
    }
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> copies;
    for (const NamedParameter& p : parameters_) copies.push_back(p.tensor.detach().clone());
    return copies;
  }

  void expect_values(const std::vector<at::Tensor>& expected) const {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters_[i].tensor, expected[i])) << parameters_[i].name;
    }
  }

  std::unique_ptr<Optimizer> make() const { return make_optimizer(config_, parameters_); }

  std::string usage_message() const {
    try {
      make();
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    ADD_FAILURE() << "nothing refused";
    return "";
  }

  OptimizerConfig config_;
  std::vector<NamedParameter> parameters_;
};

std::map<std::string, at::Tensor> by_name(const Optimizer& optimizer) {
  std::map<std::string, at::Tensor> entries;
  for (const TensorEntry& entry : optimizer.state()) entries[entry.name] = entry.tensor;
  return entries;
}

double saved_step(const Optimizer& optimizer, const std::string& parameter) {
  return by_name(optimizer).at(parameter + ".step").item<double>();
}

TEST_F(OptimizerTest, DecaysMatricesOnlyByDefault) {
  EXPECT_THAT(make()->describe_groups(), ElementsAre(HasSubstr("no weight decay: 2 tensors"),
                                                     HasSubstr("weight decay 0.1: 2 tensors")));
}

TEST_F(OptimizerTest, GroupsOverrideByGlobAndTheFirstMatchWins) {
  config_.groups = {{"layers.0.*", 0.5, {}}, {"layers.*", {}, 0.001}};
  EXPECT_THAT(
      make()->describe_groups(),
      ElementsAre(HasSubstr("no weight decay: 1 tensor,"), HasSubstr("weight decay 0.5: 2 tensors"),
                  HasSubstr("weight decay 0.1, learning rate × 0.1: 1 tensor,")));
}

TEST_F(OptimizerTest, AGroupsRateScalesTheScheduledOne) {
  config_.type = OptimizerType::kSgd;
  config_.momentum = 0;
  config_.weight_decay = 0;
  config_.groups = {{"*.bias", {}, 0.002}};  // a fifth of the base rate
  set_gradients(1);
  const std::vector<at::Tensor> before = values();
  make()->step(0.5, {}, {});
  for (size_t i = 0; i < before.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const double rate = parameters_[i].kind == ParamKind::kBias ? 0.1 : 0.5;
    EXPECT_TRUE(at::allclose(parameter, before[i] - rate * parameter.grad(), 1e-6, 1e-6)) << i;
  }
}

TEST_F(OptimizerTest, RefusesAGlobThatMatchesNothingAndShowsNames) {
  config_.groups = {{"layer.*", 0.5, {}}};
  EXPECT_THAT(usage_message(), testing::AllOf(HasSubstr("optimizer.groups[0].params \"layer.*\""),
                                              HasSubstr("layers.0.mlp.weight")));
}

TEST_F(OptimizerTest, RefusesAGroupShadowedByAnEarlierOne) {
  config_.groups = {{"layers.*", 0.5, {}}, {"layers.0.*", 0.2, {}}};
  EXPECT_THAT(usage_message(), testing::AllOf(HasSubstr("optimizer.groups[1].params"),
                                              HasSubstr("first match wins")));
}

TEST_F(OptimizerTest, RefusesAnUnknownKind) {
  config_.no_decay = {"norms"};
  EXPECT_THAT(usage_message(), HasSubstr("\"norms\""));
}

TEST_F(OptimizerTest, FirstStepOfAdamWMovesByTheRate) {
  set_gradients(1);
  const std::vector<at::Tensor> before = values();
  make()->step(0.01, {}, {});
  // The first Adam direction is the gradient's sign; only matrices decay.
  EXPECT_TRUE(at::allclose(parameters_[2].tensor,
                           before[2] - 0.01 * parameters_[2].tensor.grad().sign(), 0, 1e-6));
  EXPECT_TRUE(at::allclose(
      parameters_[1].tensor,
      before[1] * (1 - 0.01 * 0.1) - 0.01 * parameters_[1].tensor.grad().sign(), 0, 1e-6));
}

TEST_F(OptimizerTest, SkipsWholeUpdatesWithFoundInf) {
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kAdam, OptimizerType::kSgd}) {
    config_.type = type;
    const std::unique_ptr<Optimizer> optimizer = make();
    std::vector<at::Tensor> before = values();
    set_gradients(1);
    // Skipped at the very first step, too, where SGD's buffers have not been filled yet.
    optimizer->step(0.01, {}, at::ones({}));
    expect_values(before);
    for (const auto& [name, tensor] : by_name(*optimizer)) {
      EXPECT_EQ(tensor.abs().sum().item<double>(), 0.0) << name;
    }
    optimizer->step(0.01, {}, at::zeros({}));
    const std::vector<at::Tensor> after_skip = values();
    for (size_t i = 0; i < before.size(); ++i) {
      at::NoGradGuard no_grad;
      parameters_[i].tensor.copy_(before[i]);
    }
    make()->step(0.01, {}, {});
    expect_values(after_skip);
  }
}

TEST_F(OptimizerTest, DividesGradientsByGradScale) {
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kAdam, OptimizerType::kSgd}) {
    config_.type = type;
    const std::vector<at::Tensor> before = values();
    set_gradients(1);
    make()->step(0.01, at::full({}, 4.0), at::zeros({}));
    const std::vector<at::Tensor> inside = values();
    set_gradients(1);
    for (size_t i = 0; i < before.size(); ++i) {
      at::NoGradGuard no_grad;
      parameters_[i].tensor.copy_(before[i]);
      parameters_[i].tensor.grad().div_(4.0);
    }
    make()->step(0.01, {}, {});
    expect_values(inside);
  }
}

TEST_F(OptimizerTest, LeavesParametersWithoutGradientAloneAndCountsTheirStepsApart) {
  const std::unique_ptr<Optimizer> optimizer = make();
  const std::vector<at::Tensor> before = values();
  set_gradients(1);
  parameters_[1].tensor.mutable_grad() = at::Tensor();
  optimizer->step(0.01, {}, {});
  EXPECT_TRUE(at::equal(parameters_[1].tensor, before[1]));
  set_gradients(2);
  optimizer->step(0.01, {}, {});
  EXPECT_FALSE(at::equal(parameters_[1].tensor, before[1]));
  EXPECT_EQ(saved_step(*optimizer, "layers.0.mlp.weight"), 1.0);
  EXPECT_EQ(saved_step(*optimizer, "layers.1.mlp.weight"), 2.0);
}

TEST_F(OptimizerTest, ListsStateInParameterOrderAlsoAfterASplit) {
  const std::unique_ptr<Optimizer> optimizer = make();
  std::vector<std::string> before, after;
  for (const TensorEntry& entry : optimizer->state()) before.push_back(entry.name);
  set_gradients(1);
  parameters_[1].tensor.mutable_grad() = at::Tensor();
  optimizer->step(0.01, {}, {});
  for (const TensorEntry& entry : optimizer->state()) after.push_back(entry.name);
  EXPECT_EQ(before, after);
  EXPECT_THAT(before, testing::Contains("layers.0.mlp.bias.exp_avg_sq"));
  EXPECT_EQ(before.size(), 12U);
}

TEST_F(OptimizerTest, ZeroGradKeepsMemoryAndReleaseGradLetsItGo) {
  const std::unique_ptr<Optimizer> optimizer = make();
  EXPECT_TRUE(optimizer->gradients().empty());
  optimizer->zero_grad();
  set_gradients(1);
  optimizer->step(0.01, {}, {});
  for (const NamedParameter& parameter : parameters_) {
    EXPECT_EQ(parameter.tensor.grad().use_count(), 1U) << "another reference keeps the memory";
  }
  const void* memory = parameters_[0].tensor.grad().data_ptr();
  optimizer->zero_grad();
  EXPECT_EQ(parameters_[0].tensor.grad().data_ptr(), memory);
  EXPECT_EQ(parameters_[0].tensor.grad().abs().sum().item<double>(), 0.0);
  EXPECT_EQ(optimizer->gradients().size(), 4U);
  optimizer->release_grad();
  EXPECT_TRUE(optimizer->gradients().empty());
}

class OptimizerStateTest : public OptimizerTest {
 protected:
  // What the file of `entries` makes load_state say.
  std::string refusal(std::vector<TensorEntry> entries) {
    write_safetensors(path_, entries, {});
    return refusal_of(ExitCode::kCheckpoint, [&] { make()->load_state(SafetensorsFile(path_)); });
  }

  static TensorEntry& entry(std::vector<TensorEntry>& entries, const std::string& name) {
    return *std::find_if(entries.begin(), entries.end(), [&](auto& e) { return e.name == name; });
  }

  TemporaryFolder temporary_;
  fs::path path_ = temporary_.path() / "optimizer.safetensors";
};

TEST_F(OptimizerStateTest, ContinuesBitwiseAndByNameInAnotherOrder) {
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kAdam, OptimizerType::kSgd}) {
    config_.type = type;
    const std::unique_ptr<Optimizer> first = make();
    for (uint64_t step = 0; step < 3; ++step) {
      set_gradients(step);
      // Step counts that differ between parameters survive as well.
      if (step == 1) parameters_[3].tensor.mutable_grad() = at::Tensor();
      first->step(0.01, {}, {});
    }
    write_safetensors(path_, first->state(), {});
    const std::vector<at::Tensor> before = values();
    set_gradients(9);
    first->step(0.01, {}, {});
    const std::vector<at::Tensor> expected = values();

    for (size_t i = 0; i < before.size(); ++i) {
      at::NoGradGuard no_grad;
      parameters_[i].tensor.copy_(before[i]);
    }
    const std::vector<NamedParameter> reversed(parameters_.rbegin(), parameters_.rend());
    const std::unique_ptr<Optimizer> second = make_optimizer(config_, reversed);
    second->load_state(SafetensorsFile(path_));
    set_gradients(9);
    second->step(0.01, {}, {});
    expect_values(expected);
  }
}

TEST_F(OptimizerStateTest, RefusesMissingLeftOverAndMisshapenEntries) {
  const std::vector<TensorEntry> good = make()->state();
  std::vector<TensorEntry> bad(good.begin() + 1, good.end());
  EXPECT_THAT(refusal(bad), HasSubstr("\"embed.weight.exp_avg\" is not in the checkpoint"));
  bad = good;
  bad.push_back({"layers.7.mlp.weight.exp_avg", at::zeros({2})});
  EXPECT_THAT(refusal(bad), HasSubstr("\"layers.7.mlp.weight.exp_avg\""));
  bad = good;
  entry(bad, "embed.weight.exp_avg").tensor = at::zeros({4, 6});
  EXPECT_THAT(refusal(bad), testing::AllOf(HasSubstr("[4, 6]"), HasSubstr("[6, 4]")));
  bad = good;
  entry(bad, "embed.weight.step").tensor = at::full({}, -1.0);
  EXPECT_THAT(refusal(bad), HasSubstr("embed.weight.step"));
}

TEST_F(OptimizerStateTest, RefusesTheStateOfAnotherOptimizer) {
  config_.type = OptimizerType::kSgd;
  const std::vector<TensorEntry> sgd = make()->state();
  config_.type = OptimizerType::kAdamW;
  EXPECT_THAT(refusal(sgd), HasSubstr("optimizer.type"));
}

TEST_F(OptimizerStateTest, ARefusedFileChangesNothing) {
  const std::unique_ptr<Optimizer> optimizer = make();
  set_gradients(1);
  optimizer->step(0.01, {}, {});
  std::vector<TensorEntry> bad = make()->state();
  entry(bad, "layers.1.mlp.weight.exp_avg").tensor = at::zeros({1});
  write_safetensors(path_, bad, {});
  EXPECT_THROW(optimizer->load_state(SafetensorsFile(path_)), UserError);
  EXPECT_EQ(saved_step(*optimizer, "embed.weight"), 1.0);
  EXPECT_NE(by_name(*optimizer).at("embed.weight.exp_avg").abs().sum().item<double>(), 0.0);
}

}  // namespace
}  // namespace trainctl
