#include "trainctl/report/sinks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/testing.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

StepRecord step_record(int64_t step) {
  StepRecord record;
  record.step = step;
  record.total_steps = 100;
  record.loss = 10.0 / static_cast<double>(step);
  return record;
}

class SinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel level, const std::string& message) {
      if (level == LogLevel::kWarning) warnings_.push_back(message);
    });
  }
  void TearDown() override { set_log_sink(nullptr); }

  fs::path metrics() const { return folder_ / "metrics.jsonl"; }
  void write(const std::string& text) const { std::ofstream(metrics(), std::ios::binary) << text; }
  std::string content() const { return read_file(metrics(), ExitCode::kData); }

  // The steps of the file's lines, each of which must be a JSON object.
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    std::ifstream in(metrics());
    for (std::string line; std::getline(in, line);) {
      out.push_back(nlohmann::json::parse(line)["step"].get<int64_t>());
    }
    return out;
  }

  std::unique_ptr<MetricsSink> console(ProgressStyle style, bool is_terminal) {
    return make_console_sink(
        style, is_terminal, 80, [this](const std::string& text) { shown_.push_back("P:" + text); },
        [this](const std::string& text) { shown_.push_back("L:" + text); });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::vector<std::string> warnings_;
  std::vector<std::string> shown_;  // "P:" printed, "L:" live line
};

TEST_F(SinkTest, JsonlWritesEachLineAtOnce) {
  const auto sink = make_jsonl_sink(metrics(), 0);
  sink->on_step(step_record(1));
  EXPECT_THAT(steps(), ElementsAre(1));
  sink->on_validation({1, 2.5, 100, 0.1});
  sink->on_sample({1, "a", "b\n"});
  sink->on_step(step_record(2));
  EXPECT_THAT(steps(), ElementsAre(1, 1, 1, 2));
  sink->flush();
  EXPECT_THAT(warnings_, ElementsAre());
}

TEST_F(SinkTest, JsonlBeginsAnewAtStepZero) {
  write("{\"step\":1}\n");
  make_jsonl_sink(metrics(), 0)->on_step(step_record(5));
  EXPECT_THAT(steps(), ElementsAre(5));
}

TEST_F(SinkTest, JsonlCutsLaterLinesOnResume) {
  write(
      "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1}\n{\"step\":3}\n{\"step\":4}"
      "\n");
  make_jsonl_sink(metrics(), 2)->on_step(step_record(3));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 2, 3));
}

TEST_F(SinkTest, JsonlKeepsEverythingUpToTheResumedStep) {
  write("{\"step\":1}\n{\"step\":2}\n");
  make_jsonl_sink(metrics(), 10)->on_step(step_record(11));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 11));
}

TEST_F(SinkTest, JsonlCutsATornLastLine) {
  for (const std::string& torn :
       {std::string("{\"step\":2,\"lo"), std::string("{\"step\":2}"), std::string(20, '\0')}) {
    write("{\"step\":1}\n" + torn);
    make_jsonl_sink(metrics(), 2)->on_step(step_record(3));
    EXPECT_THAT(steps(), ElementsAre(1, 3)) << torn;
  }
}

TEST_F(SinkTest, JsonlKeepsWholeLinesAroundBrokenOnesAndTheDamagedFileAside) {
  const std::string damaged = "{\"step\":1}\n{\"step\":2,\"lo\n{\"step\":2}\n{\"step\":5}\n";
  write(damaged);
  make_jsonl_sink(metrics(), 2)->on_step(step_record(3));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
  EXPECT_EQ(read_file(metrics().string() + ".damaged", ExitCode::kData), damaged);
}

TEST_F(SinkTest, JsonlResumesWithoutAnEarlierFile) {
  make_jsonl_sink(metrics(), 7)->on_step(step_record(8));
  EXPECT_THAT(steps(), ElementsAre(8));
}

TEST_F(SinkTest, JsonlLinesAreStrictJsonWhateverTheNumbers) {
  StepRecord record = step_record(1);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  make_jsonl_sink(metrics(), 0)->on_step(record);
  EXPECT_THAT(content(), HasSubstr("\"loss\":null"));
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(SinkTest, JsonlWarnsOnceWhenTheDiskIsFull) {
  const auto sink = make_jsonl_sink("/dev/full", 0);
  for (int step = 1; step <= 3; ++step) {
    sink->on_step(step_record(step));
    sink->flush();
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("/dev/full: cannot write to the file: No space left"));
}

TEST_F(SinkTest, JsonlWarnsOnceWhenTheFileCannotBeOpened) {
  const auto sink = make_jsonl_sink(folder_ / "missing" / "metrics.jsonl", 0);
  sink->on_step(step_record(1));
  sink->on_validation({1, 2.5, 100, 0.1});
  sink->flush();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("cannot open"));
}

TEST_F(SinkTest, JsonlCutsALineThatOnlyPartlyFit) {
  const auto sink = make_jsonl_sink(metrics(), 0);
  sink->on_step(step_record(1));
  const auto size = fs::file_size(metrics());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = size + 20;  // a part of the next line
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  sink->on_step(step_record(2));
  sink->on_step(step_record(3));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  sink->on_step(step_record(4));  // there is room again
  EXPECT_THAT(steps(), ElementsAre(1, 4));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(SinkTest, ConsolePrintsPlainLinesIntoAFile) {
  const auto sink = console(ProgressStyle::kAuto, false);
  sink->on_step(step_record(1));
  sink->on_validation({1, 2.5, 100, 0.1});
  sink->on_sample({1, "a", "b"});
  ASSERT_EQ(shown_.size(), 3u);
  EXPECT_THAT(shown_[0], StartsWith("P:step   1/100 | loss 10.0000 |"));
  EXPECT_EQ(shown_[0].back(), '\n');
  EXPECT_THAT(shown_[1], StartsWith("P:step 1 | validation loss 2.5000"));
  EXPECT_EQ(shown_[2], "P:step 1 | sample\n  | ab\n");
}

TEST_F(SinkTest, ConsoleClearsTheBarAroundPermanentLines) {
  const auto sink = console(ProgressStyle::kAuto, true);
  sink->on_step(step_record(1));
  ASSERT_EQ(shown_.size(), 1u);
  const std::string bar = shown_[0];
  EXPECT_THAT(bar, StartsWith("L:  1% |"));
  EXPECT_THAT(bar, Not(HasSubstr("\n")));
  sink->on_validation({1, 2.5, 100, 0.1});
  ASSERT_EQ(shown_.size(), 4u);
  EXPECT_EQ(shown_[1], "L:");
  EXPECT_THAT(shown_[2], StartsWith("P:step 1 | validation"));
  EXPECT_EQ(shown_[3], bar);
  SummaryRecord summary;
  summary.outcome = "finished";
  sink->on_summary(summary);
  ASSERT_EQ(shown_.size(), 6u);
  EXPECT_EQ(shown_[4], "L:");
  EXPECT_THAT(shown_[5], StartsWith("P:finished\n"));
}

TEST_F(SinkTest, ConsoleLeavesNoBarBehindWhenItGoes) {
  console(ProgressStyle::kBar, false)->on_step(step_record(1));
  ASSERT_EQ(shown_.size(), 2u);
  EXPECT_EQ(shown_[1], "L:");
}

TEST_F(SinkTest, ConsoleStylesOverrideTheTerminal) {
  console(ProgressStyle::kLines, true)->on_step(step_record(1));
  ASSERT_EQ(shown_.size(), 1u);
  EXPECT_THAT(shown_[0], StartsWith("P:step"));
  shown_.clear();
  const auto silent = console(ProgressStyle::kNone, true);
  silent->on_step(step_record(1));
  silent->on_validation({1, 2.5, 100, 0.1});
  silent->on_sample({1, "a", "b"});
  EXPECT_TRUE(shown_.empty());
  silent->on_summary({});
  EXPECT_EQ(shown_.size(), 1u);
}

TEST_F(SinkTest, ConsoleDrawsTheCurveOfTheWholeRunAtItsEnd) {
  write("{\"step\":1,\"loss\":4.0}\n{\"step\":100,\"loss\":1.0}\n");
  SummaryRecord summary;
  summary.outcome = "finished";
  summary.run_dir = folder_.string();
  console(ProgressStyle::kLines, false)->on_summary(summary);
  ASSERT_EQ(shown_.size(), 2u);
  EXPECT_THAT(shown_[0], HasSubstr("training loss"));
  EXPECT_THAT(shown_[1], StartsWith("P:finished\n"));
}

class CountingSink : public MetricsSink {
 public:
  explicit CountingSink(std::string& calls) : calls_(calls) {}
  void on_step(const StepRecord&) override { calls_ += 's'; }
  void on_validation(const ValidationRecord&) override { calls_ += 'v'; }
  void on_sample(const SampleRecord&) override { calls_ += 't'; }
  void on_checkpoint(const CheckpointRecord&) override { calls_ += 'c'; }
  void on_summary(const SummaryRecord&) override { calls_ += 'e'; }
  void flush() override { calls_ += 'f'; }

 private:
  std::string& calls_;
};

TEST_F(SinkTest, CompositeHandsEverythingToEach) {
  std::string calls;
  std::vector<std::unique_ptr<MetricsSink>> sinks;
  sinks.push_back(std::make_unique<CountingSink>(calls));
  sinks.push_back(std::make_unique<CountingSink>(calls));
  CompositeSink sink(std::move(sinks));
  sink.on_step({});
  sink.on_validation({});
  sink.on_sample({});
  sink.on_checkpoint({});
  sink.on_summary({});
  sink.flush();
  EXPECT_EQ(calls, "ssvvttcceeff");
}

}  // namespace
}  // namespace trainctl
