#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config_testing.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;

struct Combination {
  const char* name;
  std::vector<std::string> changes;
  const char* words;  // "": accepted
};

void PrintTo(const Combination& c, std::ostream* out) { *out << c.name; }

class Combinations : public ::testing::TestWithParam<Combination> {};

TEST_P(Combinations, AreJudged) {
  const std::string message = set_error(GetParam().changes);
  if (*GetParam().words == '\0') {
    EXPECT_EQ(message, "");
  } else {
    EXPECT_THAT(message, HasSubstr(GetParam().words));
  }
}

const std::vector<std::string> kEncoder = {"model.type=encoder_classifier",
                                           "data.format=synthetic"};

std::vector<std::string> encoder(std::vector<std::string> changes) {
  changes.insert(changes.begin(), kEncoder.begin(), kEncoder.end());
  return changes;
}

INSTANTIATE_TEST_SUITE_P(
    All, Combinations,
    ::testing::Values(
        Combination{"Base", {}, ""},
        Combination{"HeadsNotDividingWidth",
                    {"model.n_heads=3"},
                    "do not divide d_model 16; such numbers do: 1, 2, 4, 8, 16"},
        Combination{
            "RotaryOddHead", {"model.d_model=6", "model.position=rotary"}, "even head width"},
        Combination{"RotaryEvenHead", {"model.position=rotary"}, ""},
        Combination{
            "SequenceLongerThanPositions", {"data.seq_len=9"}, "longer than model.max_seq_len 8"},
        Combination{"NoFiles", {"data.train=[]"}, "names no files"},
        Combination{"BytesNeed257", {"model.vocab_size=256"}, "at least 257"},
        Combination{"SyntheticSmallVocabulary",
                    {"model.vocab_size=16", "data.format=synthetic", "data.train=null"},
                    ""},
        Combination{"NoLimit", {"training.max_steps=0"}, "nothing ends the run"},
        Combination{"OnlyTokens", {"training.max_steps=0", "training.max_tokens=100"}, ""},
        Combination{"OnlyEpochs", {"training.max_steps=0", "training.epochs=0.5"}, ""},
        Combination{"TimeWithCosine",
                    {"training.max_steps=0", "training.max_time=1m"},
                    "needs the number of steps"},
        Combination{"TimeWithConstant",
                    {"training.max_steps=0", "training.max_time=1m", "lr_scheduler.type=constant"},
                    ""},
        Combination{"TimeWithWarmupRatio",
                    {"training.max_steps=0", "training.max_time=1m", "lr_scheduler.type=constant",
                     "lr_scheduler.warmup_ratio=0.1"},
                    "needs the number of steps"},
        Combination{"GlobalBatchNotMultiple",
                    {"training.global_batch_size=3"},
                    "3 is not a multiple of micro_batch_size 2"},
        Combination{"GlobalBatchDisagrees",
                    {"training.global_batch_size=4", "training.gradient_accumulation_steps=4"},
                    "not a multiple"},
        Combination{"GlobalBatchAgrees",
                    {"training.global_batch_size=8", "training.gradient_accumulation_steps=4"},
                    ""},
        Combination{"AccumulationZero",
                    {"training.gradient_accumulation_steps=0"},
                    "must be an integer from 1"},
        Combination{
            "HugeStep",
            {"training.micro_batch_size=1000000", "training.gradient_accumulation_steps=1000000"},
            "at most 1000000000"},
        Combination{"TwoWarmups",
                    {"lr_scheduler.warmup_steps=2", "lr_scheduler.warmup_ratio=0.1"},
                    "not both"},
        Combination{"MinimumAboveRate",
                    {"lr_scheduler.min_learning_rate=1"},
                    "is above optimizer.learning_rate 0.0003"},
        Combination{"ValidationFractionOne", {"data.validation_fraction=1"}, "below 1"},
        Combination{"TiedEncoder", encoder({"model.tie_embeddings=true"}),
                    "only when model.type is gpt"},
        Combination{"UntiedEncoder", encoder({"model.tie_embeddings=false"}), ""},
        Combination{"PoolingEncoder", encoder({"model.pooling=mean", "model.n_classes=3"}), ""},
        Combination{
            "PoolingGpt", {"model.pooling=mean"}, "only when model.type is encoder_classifier"},
        Combination{"NoPoolingGpt", {"model.pooling=none"}, ""},
        Combination{
            "ClassesGpt", {"model.n_classes=3"}, "only when model.type is encoder_classifier"},
        Combination{"RotaryEncoder", encoder({"model.position=rotary"}),
                    "only when model.type is gpt"},
        Combination{"SwigluEncoder", encoder({"model.activation=swiglu"}), "not swiglu"},
        Combination{"InitStdEncoder", encoder({"model.init_std=0.1"}),
                    "only when model.type is gpt"},
        Combination{"PromptsEncoder", encoder({"validation.prompts=[\"x\"]"}),
                    "only when model.type is gpt"},
        Combination{"OneClass", encoder({"model.pooling=mean", "model.n_classes=1"}),
                    "at least 2 classes"},
        Combination{"PooledText",
                    {"model.type=encoder_classifier", "model.pooling=mean"},
                    "no class per sequence"},
        Combination{"FewClassesText",
                    {"model.type=encoder_classifier", "model.n_classes=2"},
                    "must be vocab_size"},
        Combination{"RopeThetaWithoutRotary",
                    {"model.rope_theta=500000"},
                    "only when model.position is rotary"},
        Combination{
            "MomentumWithAdam", {"optimizer.momentum=0.9"}, "only when optimizer.type is sgd"},
        Combination{"NoMomentumWithAdam", {"optimizer.momentum=0"}, ""},
        Combination{"MomentumWithSgd",
                    {"optimizer.type=sgd", "optimizer.momentum=0.8", "optimizer.nesterov=true"},
                    ""},
        Combination{"NesterovWithoutMomentum",
                    {"optimizer.type=sgd", "optimizer.momentum=0", "optimizer.nesterov=true"},
                    "needs a momentum"},
        Combination{"DecayStepsWithCosine",
                    {"lr_scheduler.decay_steps=5"},
                    "only when lr_scheduler.type is warmup_stable_decay"},
        Combination{"DecayTwice",
                    {"lr_scheduler.type=warmup_stable_decay", "lr_scheduler.decay_steps=5",
                     "lr_scheduler.decay_ratio=0.5"},
                    "decay_steps is not given"},
        Combination{"StoppingWithoutData",
                    {"validation.early_stopping.patience=2", "validation.interval=1",
                     "data.validation_fraction=0"},
                    "needs validation data"},
        Combination{"StoppingWithoutInterval",
                    {"validation.early_stopping.patience=2"},
                    "needs validation.interval"},
        Combination{
            "Stopping", {"validation.early_stopping.patience=2", "validation.interval=1"}, ""},
        Combination{"CudnnAttentionOnCpu",
                    {"backend.device=cpu", "backend.attention=cudnn"},
                    "exists on CUDA only"},
        Combination{
            "NcclOnCpu", {"backend.device=cpu", "parallel.backend=nccl"}, "between GPUs only"},
        Combination{"HalfOnCpu", {"backend.device=cpu", "precision.dtype=fp16"}, ""},
        Combination{"SecondGpu", {"backend.device=cuda:1"}, ""},
        Combination{"NamelessGpu", {"backend.device=cuda:"}, "\"cuda:N\""},
        Combination{"NegativeTopK", {"validation.top_k=-1"}, "from 0 to"},
        Combination{"GroupWithoutParams",
                    {"optimizer.groups=[{\"weight_decay\": 0}]"},
                    "has no \"params\""},
        Combination{"GroupThatChangesNothing",
                    {"optimizer.groups=[{\"params\": \"*\"}]"},
                    "changes nothing"},
        Combination{"WrongGroupKey",
                    {"optimizer.groups=[{\"params\": \"*\", \"lr\": 1}]"},
                    "did you mean optimizer.groups[0].learning_rate?"},
        Combination{"UnknownKind", {"optimizer.no_decay=[\"norms\"]"}, "did you mean \"norm\"?"},
        Combination{"NameWithFolder", {"run.name=a/b"}, "name of one folder"},
        Combination{"DotName", {"run.name=.."}, "name of one folder"},
        Combination{"TabName", {"run.name=\"a\\tb\""}, "control characters"}),
    [](const auto& test) { return test.param.name; });

TEST(Combinations, ErrorNamesTheLineOfAGivenKey) {
  EXPECT_THAT(config_error("{\"model\": {\n\"n_heads\": 3},\n\"data\": {\"format\": \"synthetic\"},"
                           "\"training\": {\"max_steps\": 1}}"),
              HasSubstr("run.json:2: model.n_heads: 3 heads"));
}

TEST(Combinations, SayNothingAboutValuesThatAreWrongThemselves) {
  EXPECT_EQ(set_error({"model.n_heads=0"}),
            "--set: model.n_heads: must be an integer from 1 to 65536, not 0");
  EXPECT_EQ(set_error({"model.type=bert", "model.pooling=mean"}),
            "--set: model.type: \"bert\" is not in this version; this one has gpt, "
            "encoder_classifier");
}

TEST(WithoutEffect, SettingsOfWhatIsNotInUseDrawAWarningAndAreDropped) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"optimizer.betas=[0.8, 0.9]", "optimizer.type=sgd"},
      {"lr_scheduler.min_learning_rate=1e-5", "lr_scheduler.type=constant"},
      {"precision.grad_scaler.init_scale=8", "precision.dtype=fp32"},
      {"data.synthetic_sequences=10", "data.format=text"},
      {"data.prefetch=9", "data.workers=0"},
      {"validation.top_k=5", "validation.prompts=[]"},
      {"data.validation_fraction=0.5", "data.validation=[\"v.txt\"]"},
  };
  for (const auto& [setting, type] : cases) {
    const LoadedConfig loaded = parse_config(kSmallConfig, "run.json", {setting, type});
    ASSERT_EQ(loaded.warnings.size(), 1U) << setting;
    EXPECT_THAT(loaded.warnings[0], HasSubstr("has an effect only when")) << setting;
    EXPECT_THAT(loaded.warnings[0], HasSubstr(setting.substr(0, setting.find('=')))) << setting;
    const LoadedConfig without = parse_config(kSmallConfig, "run.json", {type});
    EXPECT_EQ(config_to_json(loaded.config), config_to_json(without.config)) << setting;
  }
}

TEST(WithoutEffect, ValuesAtTheirDefaultDrawNoWarning) {
  const LoadedConfig loaded =
      parse_config(kSmallConfig, "run.json",
                   {"optimizer.type=sgd", "optimizer.betas=[0.9, 0.95]", "optimizer.eps=1e-8"});
  EXPECT_TRUE(loaded.warnings.empty());
}

}  // namespace
}  // namespace trainctl
