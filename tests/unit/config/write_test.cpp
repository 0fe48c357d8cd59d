#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/duration.h"
#include "config/value.h"
#include "config_testing.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<std::string>>& variants() {
  static const std::vector<std::vector<std::string>> all = {
      {},
      {"optimizer.type=sgd", "optimizer.momentum=0.5", "optimizer.nesterov=true"},
      {"optimizer.learning_rate=0.1", "optimizer.eps=1.2345678901234567e-9"},
      {"optimizer.groups=[{\"params\": \"*.mlp.*\", \"learning_rate\": 0.1}, {\"params\": \"b\", "
       "\"weight_decay\": 0}]"},
      {"checkpoint.interval=90s", "validation.interval=0.3s", "training.max_time=1h1m1s"},
      {"checkpoint.interval=123456789.123456789s"},
      {"model.position=rotary", "model.rope_theta=500000", "model.activation=swiglu"},
      {"model.type=encoder_classifier", "data.format=synthetic", "model.pooling=first",
       "model.n_classes=7"},
      {"lr_scheduler.type=warmup_stable_decay", "lr_scheduler.decay_steps=3"},
      {"lr_scheduler.type=warmup_stable_decay", "lr_scheduler.decay_ratio=0.3"},
      {"precision.dtype=fp16", "precision.grad_scaler.enabled=false"},
      {"precision.grad_scaler.enabled=true", "precision.grad_scaler.growth_interval=5"},
      {"run.name=ünïcode \" quotes", "validation.prompts=[\"a\\nb\", \"\\u0001\"]"},
      {"training.global_batch_size=8", "training.gradient_accumulation_steps=4"},
      {"run.seed=9223372036854775807", "training.max_tokens=8999999999999999"},
      {"backend.deterministic=true", "backend.cudnn_benchmark=true"},
  };
  return all;
}

TEST(ResolvedConfig, ReadsBackToTheSame) {
  for (const auto& changes : variants()) {
    const LoadedConfig first = parse_config(kSmallConfig, "run.json", changes);
    const std::string text = config_to_json(first.config);
    LoadedConfig second;
    ASSERT_NO_THROW(second = parse_config(text, "resolved.json")) << text;
    EXPECT_EQ(config_to_json(second.config), text);
    EXPECT_TRUE(second.warnings.empty()) << text;
    // The members that the text leaves out must be equal too.
    const auto all = [](const Config& c) {
      std::string values;
      for_each_field(config_table(), "", &c,
                     [&](const std::string& path, const Field& field, const void* owner) {
                       if (!field.is_list())
                         values += path + "=" + write_value(field, owner).dump() + "\n";
                     });
      return values;
    };
    EXPECT_EQ(all(second.config), all(first.config));
  }
}

TEST(ResolvedConfig, IsPlainJson) {
  for (const auto& changes : variants()) {
    const Config config = parse_config(kSmallConfig, "run.json", changes).config;
    EXPECT_TRUE(nlohmann::json::accept(config_to_json(config)));
  }
}

TEST(ShownConfig, IsAConfigItself) {
  const LoadedConfig loaded = parse_config(kSmallConfig, "run.json");
  EXPECT_EQ(config_to_json(parse_config(config_show(loaded), "shown.json").config),
            config_to_json(loaded.config));
}

TEST(Starter, IsAcceptedWithoutWarnings) {
  const LoadedConfig loaded = parse_config(config_starter(), "starter.json");
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_THAT(config_starter(), HasSubstr("// "));
}

TEST(Schema, NamesEveryField) {
  const nlohmann::json schema = nlohmann::json::parse(config_json_schema());
  const Config defaults;
  for_each_field(config_table(), "", &defaults,
                 [&](const std::string& path, const Field&, const void*) {
                   std::string pointer;
                   size_t at = 0;
                   while (at <= path.size()) {
                     const size_t dot = std::min(path.find('.', at), path.size());
                     pointer += "/properties/" + path.substr(at, dot - at);
                     at = dot + 1;
                   }
                   ASSERT_TRUE(schema.contains(nlohmann::json::json_pointer(pointer))) << path;
                 });
}

TEST(Duration, ReadsBackToTheSameNumber) {
  for (const double seconds : {0.1, 1.0, 59.0, 60.0, 90.0, 3600.0, 5400.0, 86400.0, 1e9, 1.0 / 3}) {
    EXPECT_EQ(parse_duration(format_duration(seconds)), seconds) << format_duration(seconds);
  }
  EXPECT_EQ(format_duration(7200), "2h");
  EXPECT_EQ(format_duration(90), "90s");
}

}  // namespace
}  // namespace trainctl
