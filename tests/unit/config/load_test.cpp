#include "trainctl/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "config_testing.h"
#include "trainctl/base/files.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Config small(const std::vector<std::string>& overrides = {}) {
  return parse_config(kSmallConfig, "run.json", overrides).config;
}

TEST(LoadConfig, AcceptsTheFixedNames) {
  const char* text = R"({
    "run": {"name": "mini", "output_dir": "runs", "seed": 1},
    "model": {"type": "gpt", "vocab_size": 257, "d_model": 16, "n_layers": 1, "n_heads": 2,
              "d_ff": 64, "max_seq_len": 8, "dropout": 0.0, "tie_embeddings": true},
    "data": {"format": "text", "train": ["data.txt"], "validation": [], "validation_fraction": 0.1,
             "seq_len": 8, "shuffle": true},
    "training": {"max_steps": 20, "micro_batch_size": 2, "global_batch_size": 2,
                 "max_grad_norm": 1.0, "loss": "auto"},
    "optimizer": {"type": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1,
                  "betas": [0.9, 0.95], "eps": 1e-8},
    "lr_scheduler": {"type": "cosine", "warmup_steps": 2, "min_learning_rate": 1e-4},
    "precision": {"dtype": "fp32", "float32_matmul_precision": "highest",
                  "grad_scaler": {"enabled": "auto", "init_scale": 65536}},
    "backend": {"device": "auto", "deterministic": false, "cudnn_benchmark": true,
                "cudnn_deterministic": false, "threads": 0},
    "parallel": {"strategy": "ddp", "backend": "auto", "bucket_mb": 25},
    "validation": {"interval": 10},
    "checkpoint": {"interval": 10, "keep_latest": 3},
    "logging": {"interval": 1}
  })";
  const LoadedConfig loaded = parse_config(text, "run.json");
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_EQ(loaded.config.model.d_ff, 64);
  EXPECT_EQ(loaded.config.optimizer.learning_rate, 1e-3);
  EXPECT_TRUE(loaded.config.backend.cudnn_benchmark);
  EXPECT_EQ(loaded.config.validation.interval.steps, 10);
  // Also under every type that a script may switch to with --set, with what then has no effect.
  for (const char* change : {"optimizer.type=sgd", "lr_scheduler.type=constant",
                             "data.format=synthetic", "precision.dtype=fp16"}) {
    EXPECT_NO_THROW(parse_config(text, "run.json", {change})) << change;
  }
}

TEST(LoadConfig, RejectsUnknownKeyWithNearest) {
  EXPECT_EQ(config_error("{\n \"optimizer\": {\n  \"learning_rte\": 1\n }, \"training\": "
                         "{\"max_steps\": 1}, \"data\": {\"format\": \"synthetic\"}}"),
            "run.json:3: optimizer.learning_rte: unknown key; did you mean "
            "optimizer.learning_rate?");
}

TEST(LoadConfig, RejectsDuplicateKeyWithBothLines) {
  EXPECT_THAT(config_error("{\"run\": {\"seed\": 1,\n\n\"seed\": 2}}"),
              HasSubstr("run.json:3: run.seed: given twice, the first time on line 1"));
}

TEST(LoadConfig, NamesEveryProblemAtOnceInOrderOfLines) {
  const std::string message = config_error(
      "{\n\"modle\": {},\n\"data\": {\"seq_len\": 0},\n\"run\": {\"seed\": 1, \"seed\": 2},\n"
      "\"optimizer\": {\"learning_rate\": \"0.1\"}\n}");
  const size_t first = message.find("run.json:2: modle"), second = message.find("run.json:3: data"),
               third = message.find("run.json:4: run.seed"),
               fourth = message.find("run.json:5: optimizer.learning_rate");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, fourth);
  EXPECT_NE(fourth, std::string::npos) << message;
}

TEST(LoadConfig, RejectsWhatIsNoObject) {
  for (const char* text : {"[]", "1", "\"x\"", "null"}) {
    EXPECT_THAT(config_error(text), HasSubstr("one JSON object")) << text;
  }
  EXPECT_THAT(config_error("{\"model\": 3}"), HasSubstr("model: must be an object"));
  EXPECT_THAT(config_error("{\"optimizer\": {\"groups\": {}}}"), HasSubstr("must be an array"));
  EXPECT_THAT(config_error("{\"optimizer\": {\"groups\": [1]}}"),
              HasSubstr("optimizer.groups[0]: must be an object"));
}

TEST(LoadConfig, DoesNotComplainOfWhatFollowsFromAnotherProblem) {
  EXPECT_EQ(
      config_error("{\"training\": {\"max_step\": 5}, \"data\": {\"format\": \"synthetic\"}}"),
      "run.json:1: training.max_step: unknown key; did you mean training.max_steps?");
  EXPECT_EQ(set_error({"training=5"}),
            "--set: training: must be an object { … }, not the number 5");
  EXPECT_EQ(set_error({"data={\"train\": ["}),
            "--set: data: the value is not valid JSON: the file ends too early: the object or "
            "array begun on line 1 is not closed");
}

TEST(LoadConfig, SuggestsWordsWhateverTheirCase) {
  EXPECT_THAT(set_error({"model.activation=GELU"}), HasSubstr("did you mean \"gelu\"?"));
}

TEST(LoadConfig, AllowsSchemaKeyAtTheTopOnly) {
  EXPECT_EQ(
      config_error(
          R"({"$schema": "x", "training": {"max_steps": 1}, "data": {"format": "synthetic"}})"),
      "");
  EXPECT_THAT(config_error(R"({"$schema": 1})"), HasSubstr("$schema: must be a string"));
  EXPECT_THAT(config_error(R"({"run": {"$schema": "x"}})"), HasSubstr("unknown key"));
}

TEST(LoadConfig, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(small({"training.max_tokens=1e9"}).training.max_tokens, 1000000000);
  EXPECT_EQ(small({"run.seed=9223372036854775807"}).run.seed, INT64_MAX);
  EXPECT_THAT(set_error({"training.max_tokens=1e17"}), HasSubstr("too large"));
}

TEST(LoadConfig, ReadsTimes) {
  EXPECT_EQ(small({"checkpoint.interval=10m"}).checkpoint.interval.seconds, 600);
  EXPECT_EQ(small({"checkpoint.interval=10m"}).checkpoint.interval.steps, 0);
  EXPECT_EQ(small({"checkpoint.interval=7"}).checkpoint.interval.steps, 7);
  EXPECT_EQ(small({"training.max_time=1h30m"}).training.max_time, 5400);
  EXPECT_EQ(small({"training.max_time=2.5"}).training.max_time, 2.5);
  EXPECT_EQ(small({"training.max_time=0.1s"}).training.max_time, 0.1);
}

TEST(LoadConfig, FillsInWhatFollowsFromOthers) {
  EXPECT_EQ(small().model.d_ff, 64);
  EXPECT_EQ(small({"model.activation=swiglu"}).model.d_ff,
            48);  // 42.7 rounded up to a multiple of 8
  const LoadedConfig encoder = parse_config(
      R"({"model": {"type": "encoder_classifier", "vocab_size": 100}, "data": {"format": "synthetic"},
          "training": {"max_steps": 1}})",
      "run.json");
  EXPECT_EQ(encoder.config.model.norm_order, NormOrder::kPost);
  EXPECT_EQ(encoder.config.model.activation, Activation::kRelu);
  EXPECT_EQ(encoder.config.model.n_classes, 100);
  EXPECT_FALSE(encoder.config.model.tie_embeddings);
  EXPECT_EQ(encoder.origins.at("model.norm_order"), "derived");
}

TEST(LoadConfig, KeepsTheOriginOfEveryValue) {
  const LoadedConfig loaded = parse_config(kSmallConfig, "a/run.json", {"run.seed=7"});
  EXPECT_EQ(loaded.origins.at("model.d_model"), "a/run.json:2");
  EXPECT_EQ(loaded.origins.at("training.max_steps"), "a/run.json:4");
  EXPECT_EQ(loaded.origins.at("run.seed"), "--set");
  EXPECT_EQ(loaded.origins.at("run.name"), "default");
  EXPECT_EQ(loaded.origins.at("model.d_ff"), "derived");
  EXPECT_THAT(config_show(loaded), AllOf(HasSubstr("// a/run.json:2"), HasSubstr("// --set")));
}

TEST(LoadConfig, DeterminismOverridesBenchmarkWithAWarning) {
  const LoadedConfig loaded = parse_config(
      kSmallConfig, "run.json", {"backend.deterministic=true", "backend.cudnn_benchmark=true"});
  EXPECT_FALSE(loaded.config.backend.cudnn_benchmark);
  EXPECT_THAT(loaded.warnings, ElementsAre(HasSubstr("backend.cudnn_benchmark: switched off")));
}

TEST(LoadConfig, ExpandsPaths) {
  setenv("TRAINCTL_TEST_FOLDER", "/somewhere", 1);
  const LoadedConfig loaded =
      parse_config(kSmallConfig, "/etc/cfg/run.json",
                   {R"(data.train=["${CONFIG_DIR}/a.txt", "$TRAINCTL_TEST_FOLDER/*.txt"])"});
  EXPECT_THAT(loaded.config.data.train, ElementsAre("/etc/cfg/a.txt", "/somewhere/*.txt"));
  EXPECT_EQ(loaded.config_dir, "/etc/cfg");
  unsetenv("TRAINCTL_TEST_UNSET");
  EXPECT_THAT(set_error({R"(data.train=["$TRAINCTL_TEST_UNSET/a"])"}),
              AllOf(HasSubstr("data.train: "), HasSubstr("TRAINCTL_TEST_UNSET")));
}

TEST(LoadConfig, UnreadableFilesAreNamed) {
  const auto error_of = [](const std::string& path) -> std::string {
    try {
      load_config(path, {});
      return "";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
  };
  EXPECT_THAT(error_of("/no/such.json"), AllOf(HasSubstr("/no/such.json"), HasSubstr("not exist")));
  EXPECT_THAT(error_of("/tmp"), HasSubstr("is a folder"));
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("device"));
}

// --- --set
// -----------------------------------------------------------------------------------------

TEST(Set, ReplacesValuesAndMergesObjects) {
  const Config c = small({"model.dropout=0.5", R"(optimizer={"weight_decay": 0})",
                          "optimizer.learning_rate=1e-2", R"(data.train=["x", "y"])"});
  EXPECT_EQ(c.model.dropout, 0.5);
  EXPECT_EQ(c.optimizer.weight_decay, 0);
  EXPECT_EQ(c.optimizer.learning_rate, 1e-2);
  EXPECT_THAT(c.data.train, ElementsAre("x", "y"));
}

TEST(Set, TakesStringsWithoutQuotes) {
  EXPECT_EQ(small({"run.name=2024"}).run.name, "2024");
  EXPECT_EQ(small({"run.name=a=b"}).run.name, "a=b");
  EXPECT_EQ(small({"run.name=\"q\""}).run.name, "q");
  EXPECT_EQ(small({"run.name=true"}).run.name, "true");
  EXPECT_EQ(small({"precision.dtype=bf16"}).precision.dtype, Dtype::kBf16);
}

TEST(Set, LastOneHolds) { EXPECT_EQ(small({"run.seed=1", "run.seed=2"}).run.seed, 2); }

TEST(Set, NullRestoresTheDefault) {
  EXPECT_EQ(small({"model.n_layers=null"}).model.n_layers, ModelConfig().n_layers);
}

TEST(Set, ReachesIntoArrays) {
  const Config c = small({R"(optimizer.groups=[{"params": "a", "weight_decay": 0}])",
                          "optimizer.groups[0].learning_rate=0.5", "optimizer.groups[1].params=b",
                          "optimizer.groups[1].weight_decay=1"});
  ASSERT_EQ(c.optimizer.groups.size(), 2U);
  EXPECT_EQ(c.optimizer.groups[0].learning_rate, 0.5);
  EXPECT_EQ(c.optimizer.groups[1].params, "b");
  EXPECT_THAT(set_error({"optimizer.groups[3].params=x"}), HasSubstr("no element 3"));
}

TEST(Set, RefusesWhatIsMalformed) {
  EXPECT_THAT(set_error({"abc"}), HasSubstr("is not KEY=VALUE"));
  EXPECT_THAT(set_error({"=1"}), HasSubstr("is not KEY=VALUE"));
  EXPECT_THAT(set_error({"a..b=1"}), HasSubstr("not a key path"));
  EXPECT_THAT(set_error({"model.=1"}), HasSubstr("not a key path"));
  EXPECT_THAT(set_error({"data.train=[\"a\""}), HasSubstr("not valid JSON"));
  EXPECT_THAT(set_error({"run={\"seed\": 1, \"seed\": 2}"}), HasSubstr("run.seed: given twice"));
  EXPECT_THAT(set_error({"model.d_model.x=1"}), HasSubstr("nothing can be set inside"));
  EXPECT_THAT(set_error({"data.train=my.txt"}), HasSubstr("write [\"my.txt\"]"));
  EXPECT_THAT(set_error({"model.n_layers=nan"}), HasSubstr("must be an integer"));
}

TEST(Set, UnknownKeysGetTheNearest) {
  EXPECT_EQ(set_error({"optimizer.learning_rte=1"}),
            "--set: optimizer.learning_rte: unknown key; did you mean optimizer.learning_rate?");
  EXPECT_THAT(set_error({"optimiser.type=sgd"}), HasSubstr("did you mean optimizer?"));
  EXPECT_THAT(set_error({"max_steps=3"}), HasSubstr("did you mean training.max_steps?"));
  EXPECT_THAT(set_error({"model.nonsense_here=null"}), HasSubstr("unknown key"));
}

}  // namespace
}  // namespace trainctl
