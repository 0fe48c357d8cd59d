#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/testing.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/data/data.h"

namespace trainctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Window {
  std::vector<int64_t> tokens, targets;
};

Window window(const Dataset& dataset, int64_t index) {
  const auto length = static_cast<size_t>(dataset.sample_length(index));
  Window out{std::vector<int64_t>(length),
             std::vector<int64_t>(dataset.targets_per_sequence() ? 1 : length)};
  dataset.read(index, out.tokens.data(), out.targets.data());
  return out;
}

// Runs in a folder of its own, which is also the working directory.
class TextDatasets : public testing::Test {
 protected:
  TextDatasets() {
    fs::current_path(folder_);
    set_log_sink([this](LogLevel, const std::string& message) { logged_ += message + "\n"; });
    config_.model.vocab_size = 257;
    config_.data.train = {"train.txt"};
    config_.data.seq_len = 8;
    config_.data.validation_fraction = 0;
  }
  ~TextDatasets() override {
    set_log_sink(nullptr);
    fs::current_path(before_);
  }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  // All tokens differ from their neighbours in a way that tells the position.
  static std::string numbered_text(int64_t bytes) {
    std::string text;
    for (int64_t i = 0; i < bytes; ++i) text += static_cast<char>(' ' + i % 90);
    return text;
  }
  std::string error() const {
    return refusal_of(ExitCode::kData, [this] { open_datasets(config_); });
  }

  fs::path before_ = fs::current_path();
  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::string logged_;
  Config config_;
};

// The stream that the windows make when laid end to end: the first token, then every target.
std::vector<int64_t> stream_of(const Dataset& dataset) {
  std::vector<int64_t> stream = {window(dataset, 0).tokens[0]};
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Window w = window(dataset, i);
    for (size_t t = 0; t < w.tokens.size(); ++t) {
      EXPECT_EQ(w.tokens[t], stream.back());
      stream.push_back(w.targets[t]);
    }
  }
  return stream;
}

TEST_F(TextDatasets, MakesEveryTokenButTheFirstATargetOnce) {
  for (const int64_t bytes : {8, 9, 15, 16, 17, 100}) {
    const std::string text = numbered_text(bytes);
    write("train.txt", text);
    const DatasetPair data = open_datasets(config_);
    EXPECT_EQ(data.validation, nullptr);
    EXPECT_EQ(data.train->size(), (bytes + 7) / 8);  // bytes + end of text - 1 targets
    std::vector<int64_t> expected(text.begin(), text.end());
    expected.push_back(256);
    EXPECT_EQ(stream_of(*data.train), expected);
    EXPECT_EQ(extent_of(*data.train).tokens_per_epoch, bytes);
    for (int64_t i = 0; i + 1 < data.train->size(); ++i) EXPECT_EQ(data.train->sample_length(i), 8);
  }
}

TEST_F(TextDatasets, JoinsFilesWithEndOfText) {
  write("a.txt", "12345");
  write("b.txt", "6789");
  config_.data.train = {"*.txt"};
  const DatasetPair data = open_datasets(config_);
  EXPECT_THAT(stream_of(*data.train),
              testing::ElementsAre('1', '2', '3', '4', '5', 256, '6', '7', '8', '9', 256));
}

TEST_F(TextDatasets, HoldsOutTheLastPartWithoutSharingATarget) {
  for (const int64_t bytes : {9, 16, 17, 100, 1000}) {
    for (const double fraction : {0.001, 0.1, 0.5, 0.9}) {
      const std::string text = numbered_text(bytes);
      write("train.txt", text);
      config_.data.validation_fraction = fraction;
      const DatasetPair data = open_datasets(config_);
      std::vector<int64_t> joined = stream_of(*data.train);
      EXPECT_EQ(extent_of(*data.train).short_window_tokens, 0);
      const std::vector<int64_t> held_out = stream_of(*data.validation);
      EXPECT_EQ(joined.back(), held_out.front());
      joined.insert(joined.end(), held_out.begin() + 1, held_out.end());
      std::vector<int64_t> expected(text.begin(), text.end());
      expected.push_back(256);
      EXPECT_EQ(joined, expected);
      const double share =
          static_cast<double>(held_out.size() - 1) / static_cast<double>(expected.size() - 1);
      if (bytes == 1000) {
        EXPECT_NEAR(share, fraction, 0.01);
      }
    }
  }
}

TEST_F(TextDatasets, ValidatesOnFilesOfTheirOwn) {
  write("train.txt", numbered_text(50));
  write("held.txt", "x");
  config_.data.validation = {"held.txt"};
  config_.data.validation_fraction = 0.5;  // gives way to the files
  const DatasetPair data = open_datasets(config_);
  EXPECT_EQ(extent_of(*data.train).tokens_per_epoch, 50);
  EXPECT_THAT(stream_of(*data.validation), testing::ElementsAre('x', 256));
  EXPECT_EQ(logged_, "");
  config_.data.validation = {"held.txt", "./train.txt"};
  open_datasets(config_);
  EXPECT_THAT(logged_, HasSubstr("'./train.txt' is also in data.train"));
}

TEST_F(TextDatasets, SaysWhatReadingChanged) {
  write("train.txt", "\xEF\xBB\xBFone\r\ntwo\r\nthree\rfour");
  open_datasets(config_);
  EXPECT_EQ(
      logged_,
      "data.train: 2 CRLF line ends became LF, 1 CR line ends became LF, 1 byte order marks were "
      "dropped\n");
}

TEST_F(TextDatasets, RefusesATextShorterThanAWindow) {
  write("train.txt", "seven b");
  EXPECT_THAT(error(), AllOf(HasSubstr("the text has 8 tokens"), HasSubstr("data.seq_len 8"),
                             HasSubstr("take 9"), HasSubstr("lower data.seq_len to at most 7")));
  write("train.txt", "eight by");
  EXPECT_EQ(error(), "");
  config_.data.validation_fraction = 0.1;  // one window cannot be shared
  EXPECT_THAT(error(), AllOf(HasSubstr("leaves nothing for data.validation_fraction"),
                             HasSubstr("data.validation_fraction to 0")));
}

TEST_F(TextDatasets, NamesTheKeyOfAMissingFile) {
  write("train.txt", numbered_text(50));
  config_.data.validation = {"trian.txt"};
  EXPECT_THAT(error(), AllOf(HasSubstr("data.validation: file 'trian.txt' does not exist"),
                             HasSubstr("did you mean 'train.txt'?")));
}

TEST_F(TextDatasets, RefusesModelsThatTextDoesNotFit) {
  write("train.txt", numbered_text(50));
  config_.model.vocab_size = 256;
  EXPECT_THAT(error(), AllOf(HasSubstr("model.vocab_size is 256"), HasSubstr("at least 257")));
  config_.model.vocab_size = 1000;
  EXPECT_EQ(error(), "");
  config_.model.pooling = Pooling::kMean;
  EXPECT_THAT(error(), HasSubstr("model.pooling"));
}

TEST_F(TextDatasets, FingerprintFollowsTheContentNotTheName) {
  write("train.txt", numbered_text(100));
  const std::string before = open_datasets(config_).train->fingerprint();
  EXPECT_EQ(open_datasets(config_).train->fingerprint(), before);
  fs::rename("train.txt", "moved.txt");
  config_.data.train = {"moved.txt"};
  EXPECT_EQ(open_datasets(config_).train->fingerprint(), before);

  std::string text = numbered_text(100);
  text[50] = '!';
  write("moved.txt", text);
  EXPECT_NE(open_datasets(config_).train->fingerprint(), before);
  write("moved.txt", numbered_text(100));
  config_.data.validation_fraction = 0.1;
  EXPECT_NE(open_datasets(config_).train->fingerprint(), before);
  config_.data.validation_fraction = 0;
  config_.data.seq_len = 9;
  EXPECT_NE(open_datasets(config_).train->fingerprint(), before);
}

class SyntheticDatasets : public testing::Test {
 protected:
  SyntheticDatasets() {
    config_.model.type = ModelType::kEncoderClassifier;
    config_.model.vocab_size = 50;
    config_.data.format = DataFormat::kSynthetic;
    config_.data.seq_len = 64;
    config_.data.synthetic_sequences = 100;
  }
  Config config_;
};

TEST_F(SyntheticDatasets, AreAFunctionOfSeedAndIndex) {
  const DatasetPair one = open_datasets(config_), again = open_datasets(config_);
  EXPECT_EQ(window(*one.train, 3).tokens, window(*again.train, 3).tokens);
  EXPECT_EQ(window(*one.train, 3).targets, window(*again.train, 3).targets);
  EXPECT_EQ(one.train->fingerprint(), again.train->fingerprint());
  config_.run.seed = 2;
  const DatasetPair other = open_datasets(config_);
  EXPECT_NE(window(*one.train, 3).tokens, window(*other.train, 3).tokens);
  EXPECT_NE(one.train->fingerprint(), other.train->fingerprint());
}

TEST_F(SyntheticDatasets, AreUniformAndIndependentOfTheirLabels) {
  config_.data.synthetic_sequences = 2000;
  config_.data.validation_fraction = 0;
  const DatasetPair data = open_datasets(config_);
  std::vector<double> token_counts(50), label_counts(50), sums(50);
  for (int64_t i = 0; i < data.train->size(); ++i) {
    const Window w = window(*data.train, i);
    for (size_t t = 0; t < w.tokens.size(); ++t) {
      ASSERT_TRUE(w.tokens[t] >= 0 && w.tokens[t] < 50 && w.targets[t] >= 0 && w.targets[t] < 50);
      ++token_counts[static_cast<size_t>(w.tokens[t])];
      ++label_counts[static_cast<size_t>(w.targets[t])];
      ++sums[static_cast<size_t>((w.tokens[t] + w.targets[t]) % 50)];  // uniform if independent
    }
  }
  const double expected = 2000.0 * 64 / 50;
  for (const auto* counts : {&token_counts, &label_counts, &sums}) {
    for (const double count : *counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
  }
}

TEST_F(SyntheticDatasets, LabelPositionsOrSequencesAsTheModelAsks) {
  config_.model.n_classes = 3;
  DatasetPair data = open_datasets(config_);
  EXPECT_FALSE(data.train->targets_per_sequence());
  EXPECT_EQ(data.train->valid_targets(0), 64);
  config_.model.pooling = Pooling::kFirst;
  data = open_datasets(config_);
  EXPECT_TRUE(data.train->targets_per_sequence());
  EXPECT_EQ(data.train->valid_targets(0), 1);
  std::set<int64_t> labels;
  for (int64_t i = 0; i < 100; ++i) labels.insert(window(*data.train, i).targets.at(0));
  EXPECT_THAT(labels, testing::ElementsAre(0, 1, 2));
}

TEST_F(SyntheticDatasets, ValidateOnFurtherSamples) {
  config_.data.validation_fraction = 0.1;
  const DatasetPair data = open_datasets(config_);
  ASSERT_EQ(data.train->size(), 100);
  ASSERT_EQ(data.validation->size(), 10);
  std::set<std::vector<int64_t>> seen;
  for (int64_t i = 0; i < 100; ++i) seen.insert(window(*data.train, i).tokens);
  for (int64_t i = 0; i < 10; ++i) seen.insert(window(*data.validation, i).tokens);
  EXPECT_EQ(seen.size(), 110u);
}

}  // namespace
}  // namespace trainctl
