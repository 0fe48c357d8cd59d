#include "trainctl/report/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "trainctl/report/header.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

StepRecord example_step() {
  StepRecord record;
  record.step = 90;
  record.total_steps = 200;
  record.epoch = 0.5;
  record.loss = 2.34561;
  record.learning_rate = 3e-4;
  record.grad_norm = 1.234;
  record.tokens = 46080;
  record.tokens_per_second = 12345;
  record.time = 3.5;
  record.memory_bytes = uint64_t{3} << 29;
  record.memory_peak_bytes = uint64_t{1} << 31;
  record.eta_seconds = 62;
  return record;
}

TEST(FormatHeader, AlignsValuesAndIndentsTheirLaterLines) {
  EXPECT_EQ(format_header({{"", "device"},
                           {"name", "cpu"},
                           {"naïveté", "x\ny"},
                           {"optimizer", "a"},
                           {"optimizer", "b"}}),
            "device\n"
            "  name       cpu\n"
            "  naïveté    x\n"
            "             y\n"
            "  optimizer  a\n"
            "             b\n");
  EXPECT_EQ(format_header({}), "");
}

TEST(FormatStepLine, HoldsEveryValue) {
  EXPECT_EQ(format_step_line(example_step()),
            "step  90/200 | loss 2.3456 | lr 3.00e-04 | grad norm 1.23 | 12.3k tok/s | 1.5 GiB | "
            "ETA 1m 02s");
  StepRecord record = example_step();
  record.total_steps = 0;
  record.eta_seconds = -1;
  record.memory_bytes = 0;
  record.loss = kNan;
  record.grad_norm = kInf;
  record.loss_scale = 65536;
  record.skipped = true;
  EXPECT_EQ(format_step_line(record),
            "step 90 | loss nan | lr 3.00e-04 | grad norm inf | 12.3k tok/s | scale 65536 | "
            "skipped: gradients not finite");
}

TEST(FormatProgressBar, FillsAWideLineAndDropsTheLeastImportantOfANarrowOne) {
  const std::string wide = format_progress_bar(example_step(), 160, true);
  EXPECT_THAT(wide, HasSubstr(" 45% |█████████████▌                | "));
  for (const char* part : {"90/200", "loss 2.3456", "lr 3.00e-04", "norm 1.23", "12.3k tok/s",
                           "1.5 GiB", "ETA 1m 02s"}) {
    EXPECT_THAT(wide, HasSubstr(part));
  }
  const std::string narrow = format_progress_bar(example_step(), 40, true);
  EXPECT_THAT(narrow, HasSubstr("loss 2.3456"));
  EXPECT_THAT(narrow, HasSubstr("ETA"));
  EXPECT_THAT(narrow, Not(HasSubstr("GiB")));
  EXPECT_THAT(narrow, Not(HasSubstr("lr")));
}

TEST(FormatProgressBar, NeverExceedsTheWidth) {
  for (const bool unicode : {false, true}) {
    for (int width = 1; width <= 200; ++width) {
      StepRecord record = example_step();
      record.loss_scale = 65536;
      record.skipped = width % 2 == 0;
      EXPECT_LE(display_columns(format_progress_bar(record, width, unicode)),
                static_cast<size_t>(width));
      record.total_steps = 0;
      EXPECT_LE(display_columns(format_progress_bar(record, width, unicode)),
                static_cast<size_t>(width));
    }
  }
}

TEST(FormatProgressBar, IsPlainAsciiWhereTheTerminalIs) {
  StepRecord record = example_step();
  const std::string half = format_progress_bar(record, 160, false);
  EXPECT_TRUE(std::all_of(half.begin(), half.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  EXPECT_THAT(half, HasSubstr("|#############.................|"));
  record.step = 200;
  EXPECT_THAT(format_progress_bar(record, 160, false), HasSubstr("100% |#####"));
  record.step = 199;  // not 100 before the end
  EXPECT_THAT(format_progress_bar(record, 160, false), HasSubstr(" 99% |"));
}

TEST(FormatProgressBar, HasNoBarWithoutAKnownEnd) {
  StepRecord record = example_step();
  record.total_steps = 0;
  const std::string line = format_progress_bar(record, 160, true);
  EXPECT_THAT(line, HasSubstr("step 90  loss"));
  EXPECT_THAT(line, Not(HasSubstr("|")));
  EXPECT_THAT(line, Not(HasSubstr("%")));
}

TEST(FormatValidation, GivesPerplexityWhileItMeansSomething) {
  ValidationRecord record{10, 2.0, 5000, 1.25};
  EXPECT_EQ(format_validation_line(record),
            "step 10 | validation loss 2.0000 | perplexity 7.389 | 5k tokens in 1.2s");
  record.validation_loss = 20;
  EXPECT_THAT(format_validation_line(record), Not(HasSubstr("perplexity")));
  record.validation_loss = kNan;
  EXPECT_THAT(format_validation_line(record), HasSubstr("validation loss nan |"));
}

TEST(FormatSample, ShowsLinesAndDisarmsWhatATerminalWouldObey) {
  const std::string text = format_sample({7, "a\n", "b\x1b[2J\rc\xff\x80"});
  EXPECT_THAT(text, ::testing::StartsWith("step 7 | sample\n  | a\n  | b"));
  EXPECT_EQ(text.back(), '\n');
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  }
  EXPECT_THAT(text, HasSubstr("\xef\xbf\xbd"));  // U+FFFD
}

TEST(FormatSummary, LeavesOutWhatIsNotKnown) {
  SummaryRecord record;
  record.outcome = "finished";
  record.steps = 20;
  record.tokens = 1234567;
  record.seconds = 75;
  record.tokens_per_second = 16461;
  record.final_loss = 1.5;
  record.run_dir = "runs/mini";
  const std::string text = format_summary(record);
  EXPECT_THAT(text, HasSubstr("finished\n  steps   20\n"));
  EXPECT_THAT(text, HasSubstr("1.23M (1234567)"));
  EXPECT_THAT(text, HasSubstr("1m 15s, 16.5k tok/s"));
  EXPECT_THAT(text, HasSubstr("runs/mini\n"));
  EXPECT_THAT(text, Not(HasSubstr("validation")));
  EXPECT_THAT(text, Not(HasSubstr("weights")));
  record.best_validation_loss = 1.25;
  record.weights_path = "runs/mini/model.safetensors";
  EXPECT_THAT(format_summary(record), HasSubstr("best validation loss  1.2500\n"));
  EXPECT_THAT(format_summary(record), HasSubstr("runs/mini/model.safetensors\n"));
}

TEST(MetricsJson, HasTheContractedKeysAndExactNumbers) {
  StepRecord record = example_step();
  record.loss = 5.548381805419922;
  const auto line = nlohmann::json::parse(step_to_json(record));
  EXPECT_EQ(line["step"], 90);
  EXPECT_EQ(line["loss"].get<double>(), 5.548381805419922);
  EXPECT_EQ(line["learning_rate"].get<double>(), 3e-4);
  EXPECT_EQ(line["grad_norm"].get<double>(), 1.234);
  EXPECT_EQ(line["tokens"], 46080);
  EXPECT_EQ(line["tokens_per_second"].get<double>(), 12345);
  EXPECT_EQ(line["time"].get<double>(), 3.5);
  EXPECT_EQ(line["epoch"].get<double>(), 0.5);
  EXPECT_FALSE(line.contains("loss_scale"));
  EXPECT_FALSE(line.contains("skipped"));
  EXPECT_FALSE(line.contains("nonfinite"));
  record.loss_scale = 1024;
  EXPECT_EQ(nlohmann::json::parse(step_to_json(record))["loss_scale"].get<double>(), 1024);
}

TEST(MetricsJson, NonFiniteValuesAreNullAndNamed) {
  StepRecord record = example_step();
  record.loss = kNan;
  record.grad_norm = -kInf;
  record.skipped = true;
  const auto line = nlohmann::json::parse(step_to_json(record));  // refuses NaN literals
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_EQ(line["nonfinite"], (nlohmann::json{"loss", "grad_norm"}));
  EXPECT_EQ(line["skipped"], true);
  const auto validation = nlohmann::json::parse(validation_to_json({3, kInf, 10, 0.5}));
  EXPECT_TRUE(validation["validation_loss"].is_null());
  EXPECT_EQ(validation["nonfinite"], nlohmann::json{"validation_loss"});
}

TEST(MetricsJson, SamplesAreValidWhateverTheModelWrote) {
  const std::string text = sample_to_json({3, "\xc3", "a\x1b\n\"\xff"});
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["step"], 3);
  EXPECT_EQ(line["sample"], "a\x1b\n\"\xef\xbf\xbd");
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

class Locale : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      const char* value = std::getenv(name);
      saved_.emplace_back(name, value == nullptr ? "" : value);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_) {
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> saved_;
};

TEST_F(Locale, IsUtf8WhenTheStrongestVariableSaysSo) {
  EXPECT_FALSE(locale_is_utf8());
  ::setenv("LANG", "C.utf8", 1);
  EXPECT_TRUE(locale_is_utf8());
  ::setenv("LC_CTYPE", "de_DE.UTF-8", 1);
  EXPECT_TRUE(locale_is_utf8());
  ::setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(locale_is_utf8());
  ::setenv("LC_ALL", "", 1);  // empty is unset
  EXPECT_TRUE(locale_is_utf8());
}

}  // namespace
}  // namespace trainctl
