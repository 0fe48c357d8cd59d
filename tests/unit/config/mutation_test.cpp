// Configs damaged at random in ways that people and disks do: reading one either succeeds or ends
// in a UserError, and what succeeds reads back to the same.
#include <gtest/gtest.h>

#include <random>

#include "config_testing.h"

namespace trainctl {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const size_t changes = 1 + pick(4);
    for (size_t i = 0; i < changes; ++i) change(&text);
    return text;
  }

 private:
  size_t pick(size_t below) { return below == 0 ? 0 : static_cast<size_t>(random_() % below); }

  void change(std::string* text) {
    static const std::vector<std::string> kPieces = {"{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "\\",
                                                     "null",
                                                     "true",
                                                     "-1",
                                                     "0",
                                                     "1e999",
                                                     "NaN",
                                                     "//",
                                                     "/*",
                                                     "\n",
                                                     "\"\"",
                                                     "99999999999999999999",
                                                     "0.5",
                                                     "\xff",
                                                     std::string(1, '\0'),
                                                     "\"model\"",
                                                     "\"type\"",
                                                     "\"gpt\"",
                                                     "\\u0000",
                                                     "[[[[",
                                                     "1e18",
                                                     "\"10m\"",
                                                     "-0.0"};
    const size_t at = pick(text->size() + 1);
    const size_t length = std::min(pick(12), text->size() - at);
    switch (pick(6)) {
      case 0:
        text->erase(at, length);
        break;
      case 1:
        text->insert(at, kPieces[pick(kPieces.size())]);
        break;
      case 2:
        text->replace(at, length, kPieces[pick(kPieces.size())]);
        break;
      case 3:
        text->insert(at, text->substr(pick(text->size() + 1), pick(40)));
        break;
      case 4:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_() & 0xFF);
        break;
      default:
        replace_number(text, at);
        break;
    }
  }

  // Numbers are where limits are.
  void replace_number(std::string* text, size_t from) {
    static const std::vector<std::string> kNumbers = {"0",
                                                      "1",
                                                      "-1",
                                                      "2",
                                                      "3",
                                                      "257",
                                                      "1048576",
                                                      "2147483647",
                                                      "9007199254740993",
                                                      "9223372036854775807",
                                                      "9223372036854775808",
                                                      "1e-300",
                                                      "1e300",
                                                      "0.9999999999999999"};
    const size_t begin = text->find_first_of("0123456789", from);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text->find_first_not_of("0123456789.e-", begin), text->size());
    text->replace(begin, end - begin, kNumbers[pick(kNumbers.size())]);
  }

  std::mt19937_64 random_;
};

TEST(MutatedConfigs, AreReadOrRefusedButNeverCrash) {
  const std::vector<std::string> seeds = {
      kSmallConfig, config_starter(), config_to_json(parse_config(kSmallConfig, "run.json").config),
      R"({"model": {"type": "encoder_classifier", "pooling": "mean", "n_classes": 3},
          "data": {"format": "synthetic"}, "training": {"max_time": "1m"},
          "lr_scheduler": {"type": "constant"},
          "optimizer": {"groups": [{"params": "*", "weight_decay": 0}]}})"};
  Mutator mutator(20240229);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string text = mutator.mutate(seeds[static_cast<size_t>(round) % seeds.size()]);
    try {
      const Config config = parse_config(text, "run.json").config;
      const std::string resolved = config_to_json(config);
      EXPECT_EQ(config_to_json(parse_config(resolved, "resolved.json").config), resolved) << text;
      ++accepted;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_NE(std::string(error.what()), "");
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

TEST(MutatedOverrides, AreReadOrRefusedButNeverCrash) {
  const std::vector<std::string> seeds = {
      "training.max_steps=5", "optimizer.groups[0].params=x", R"(data.train=["a", "b"])",
      R"(optimizer={"type": "sgd"})", "precision.grad_scaler.enabled=auto"};
  Mutator mutator(7);
  for (int round = 0; round < 3000; ++round) {
    try {
      parse_config(kSmallConfig, "run.json",
                   {mutator.mutate(seeds[static_cast<size_t>(round) % seeds.size()])});
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
    }
  }
}

}  // namespace
}  // namespace trainctl
