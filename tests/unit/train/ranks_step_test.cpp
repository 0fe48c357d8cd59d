// The loss contract (docs/design.md) over ranks, where labels are ignored: no data format has them
// yet, so a data set of its own brings them to the real loader, step and evaluation.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "trainctl/train/evaluate.h"
#include "trainctl/train/train_step.h"
#include "unit/parallel/rank_threads.h"

namespace trainctl {
namespace {

constexpr int64_t kSeqLen = 5, kClasses = 11, kSamples = 25, kGlobalBatch = 12;
constexpr double kLearningRate = 0.1;

// From sample to sample very different numbers of valid labels; some samples have none.
class RaggedLabels final : public Dataset {
 public:
  explicit RaggedLabels(bool per_sequence, bool all_ignored = false)
      : per_sequence_(per_sequence), all_ignored_(all_ignored) {}

  int64_t size() const override { return kSamples; }
  int64_t sample_length(int64_t) const override { return kSeqLen; }
  int64_t valid_targets(int64_t index) const override {
    int64_t count = 0;
    for (int64_t t = 0; t < (per_sequence_ ? 1 : kSeqLen); ++t) count += is_valid(index, t) ? 1 : 0;
    return count;
  }
  void read(int64_t index, int64_t* tokens, int64_t* targets) const override {
    for (int64_t t = 0; t < kSeqLen; ++t) tokens[t] = (index * 7 + t * 3) % kClasses;
    for (int64_t t = 0; t < (per_sequence_ ? 1 : kSeqLen); ++t)
      targets[t] = is_valid(index, t) ? (index * 5 + t) % kClasses : kIgnoreIndex;
  }
  bool targets_per_sequence() const override { return per_sequence_; }
  std::string fingerprint() const override { return "ragged"; }

 private:
  bool is_valid(int64_t index, int64_t t) const {
    if (all_ignored_) return false;
    return per_sequence_ ? index % 3 != 1 : t < (index * index) % (kSeqLen + 1);
  }

  bool per_sequence_, all_ignored_;
};

Config config_of(ModelType type, Pooling pooling) {
  Config config;
  config.model.type = type;
  config.model.pooling = pooling;
  config.model.vocab_size = kClasses;
  config.model.d_model = 16;
  config.model.n_layers = 1;
  config.model.n_heads = 2;
  config.model.d_ff = 32;
  config.model.max_seq_len = config.data.seq_len = kSeqLen;
  config.model.tie_embeddings = type == ModelType::kGpt;
  config.data.workers = 0;
  config.training.micro_batch_size = 1;
  config.training.global_batch_size = kGlobalBatch;
  // Its updates grow with the gradients: AdamW's would hide a wrong factor.
  config.optimizer.type = OptimizerType::kSgd;
  config.optimizer.weight_decay = 0;
  return config;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<at::Tensor> parameters;
  Evaluation evaluation;
  bool ranks_had_unequal_labels = false;
};

Outcome train(Communicator& c, const Config& config, const std::shared_ptr<const Dataset>& data,
              int steps) {
  at::set_num_threads(1);  // of this rank's thread
  const std::unique_ptr<Device> device = make_device("cpu", nullptr);
  const std::unique_ptr<Model> model = make_model(config.model, config.backend, 3, at::kCPU);
  const std::unique_ptr<GradientSync> sync =
      c.make_gradient_sync(model->parameters(), config.parallel);
  const std::unique_ptr<Optimizer> optimizer =
      make_optimizer(config.optimizer, model->parameters());
  GradScaler scaler(config.precision.grad_scaler, config.precision.dtype, at::kCPU);
  const BatchPlan batches = plan_batches(config.training, kSeqLen, c.shape());
  const std::unique_ptr<DataLoader> loader =
      make_train_loader(data, config, batches, c.shape(), *device);
  TrainStep train_step(config, c.world().rank, *model, *sync, *optimizer, scaler, *device);

  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const StepBatch batch = loader->next();
    int64_t labels = 0;
    for (const MicroBatch& micro_batch : batch.micro_batches)
      labels += micro_batch.targets.ne(kIgnoreIndex).sum().item<int64_t>();
    const auto all = c.gather(std::to_string(labels), "test");
    outcome.ranks_had_unequal_labels |= all.front() != all.back();
    const StepResult result = train_step.run(batch, step, kLearningRate, [] {});
    c.sum(result.loss, "test");
    outcome.losses.push_back(result.loss.item<double>());
    outcome.norms.push_back(result.grad_norm.item<double>());
  }
  outcome.evaluation = evaluate(*model, data, config, *device, c);
  for (const NamedParameter& p : model->parameters())
    outcome.parameters.push_back(p.tensor.detach().clone());
  return outcome;
}

std::vector<Outcome> train_ranks(int64_t count, const Config& config,
                                 const std::shared_ptr<const Dataset>& data, int steps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(count));
  const std::vector<std::string> errors = RankThreads().run(count, [&](Communicator& c) {
    outcomes[static_cast<size_t>(c.world().rank)] = train(c, config, data, steps);
  });
  EXPECT_EQ(errors, std::vector<std::string>(static_cast<size_t>(count)));
  return outcomes;
}

void expect_equal(const Outcome& one, const Outcome& many) {
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(many.losses[i], one.losses[i], 3e-6 * one.losses[i]) << "step " << i;
    EXPECT_NEAR(many.norms[i], one.norms[i], 3e-6 * one.norms[i]) << "step " << i;
  }
  ASSERT_EQ(one.parameters.size(), many.parameters.size());
  for (size_t i = 0; i < one.parameters.size(); ++i) {
    const at::Tensor a = one.parameters[i].to(at::kDouble), b = many.parameters[i].to(at::kDouble);
    // Biases begin at 0: what they come to is small beside the sums that it is the rest of.
    const double scale = std::max(a.norm().item<double>(), kLearningRate);
    EXPECT_LE((a - b).norm().item<double>(), 1e-6 * scale) << i;
  }
  EXPECT_NEAR(many.evaluation.loss, one.evaluation.loss, 3e-6 * one.evaluation.loss);
  EXPECT_EQ(many.evaluation.tokens, one.evaluation.tokens);
}

void expect_ranks_equal_one(ModelType type, Pooling pooling, int64_t micro_batch_size) {
  Config config = config_of(type, pooling);
  config.training.micro_batch_size = micro_batch_size;
  const auto data = std::make_shared<RaggedLabels>(pooling != Pooling::kNone);
  const auto single = make_single_communicator();
  constexpr int kSteps = 9;  // three epochs of two full steps and one of a single sample
  const Outcome one = train(*single, config, data, kSteps);
  for (int64_t count = 2; count <= 3; ++count) {
    const std::vector<Outcome> many = train_ranks(count, config, data, kSteps);
    EXPECT_TRUE(many[0].ranks_had_unequal_labels);
    for (const Outcome& rank : many) {
      expect_equal(one, rank);
      for (size_t i = 0; i < rank.parameters.size(); ++i)
        EXPECT_TRUE(at::equal(rank.parameters[i], many[0].parameters[i])) << i;
    }
  }
}

TEST(RanksWithIgnoredLabels, EqualOneRankForAGpt) {
  expect_ranks_equal_one(ModelType::kGpt, Pooling::kNone, 1);
}

TEST(RanksWithIgnoredLabels, EqualOneRankForLargerMicroBatches) {
  expect_ranks_equal_one(ModelType::kGpt, Pooling::kNone, 2);
}

TEST(RanksWithIgnoredLabels, EqualOneRankForAClassifierOfTokens) {
  expect_ranks_equal_one(ModelType::kEncoderClassifier, Pooling::kNone, 1);
}

TEST(RanksWithIgnoredLabels, EqualOneRankForAClassifierOfSequences) {
  expect_ranks_equal_one(ModelType::kEncoderClassifier, Pooling::kMean, 1);
}

TEST(RanksWithIgnoredLabels, ABatchWithoutALabelChangesNothing) {
  const Config config = config_of(ModelType::kGpt, Pooling::kNone);
  const auto data = std::make_shared<RaggedLabels>(false, /*all_ignored=*/true);
  const auto before =
      train_ranks(2, config, std::make_shared<RaggedLabels>(false), 0)[0].parameters;
  const Outcome after = train_ranks(2, config, data, 1)[0];
  EXPECT_EQ(after.losses, std::vector<double>{0});
  EXPECT_EQ(after.norms, std::vector<double>{0});
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after.parameters[i]));
}

}  // namespace
}  // namespace trainctl
