#include "checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/part.h"
#include "support/testing.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<KeptCandidate> steps(std::initializer_list<int64_t> list) {
  std::vector<KeptCandidate> out;
  for (const int64_t step : list) out.push_back({step, {}});
  return out;
}

TEST(StepsToRemove, KeepsTheNewestByNumber) {
  EXPECT_THAT(steps_to_remove(steps({9, 8, 12, 10, 11}), {2, 0, 0}), ElementsAre(8, 9, 10));
  EXPECT_THAT(steps_to_remove(steps({98, 99, 100, 101, 102}), {2, 0, 0}), ElementsAre(98, 99, 100));
  EXPECT_THAT(steps_to_remove(steps({1, 2}), {3, 0, 0}), IsEmpty());
  EXPECT_THAT(steps_to_remove(steps({1, 2}), {0, 0, 0}), ElementsAre(1));
  EXPECT_THAT(steps_to_remove({}, {1, 1, 1}), IsEmpty());
}

TEST(StepsToRemove, MultiplesOfKeepEveryStayForGood) {
  EXPECT_THAT(steps_to_remove(steps({100, 150, 200, 250, 300, 350, 400}), {1, 100, 0}),
              ElementsAre(150, 250, 350));
}

TEST(StepsToRemove, TheBestStayWhateverTheirAge) {
  const std::vector<KeptCandidate> all = {{10, 3.0}, {20, 1.0}, {30, 2.0}, {40, {}},
                                          {50, 1.0}, {60, 5.0}, {70, 4.0}};
  EXPECT_THAT(steps_to_remove(all, {1, 0, 1}), ElementsAre(10, 30, 40, 50, 60));
  EXPECT_THAT(steps_to_remove(all, {1, 0, 2}), ElementsAre(10, 30, 40, 60));
  EXPECT_THAT(steps_to_remove(all, {2, 30, 3}), ElementsAre(10, 40));
}

class RetentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel level, const std::string& message) {
      if (level == LogLevel::kWarning) warnings_.push_back(message);
    });
  }
  void TearDown() override { set_log_sink(nullptr); }

  void save(int64_t step, const std::string& run, std::optional<double> loss = {}) {
    CheckpointContent content;
    content.step = step;
    content.model = {{"w", at::ones({2})}};
    content.optimizer = {{"w.m", at::ones({2})}};
    const ShardPlan plan = plan_shards(tensor_sets(content), 1, 1 << 20);
    CommitRequest request;
    request.checkpoints = folder_;
    request.partial = partial_folder(folder_, step, "ab");
    fs::create_directories(request.partial);
    request.plan = &plan;
    request.files = write_part(request.partial, plan, 0, owned_tensors(content, plan, 0), nullptr);
    request.step = step;
    request.state_json = "{}";
    request.run = run;
    request.validation_loss = loss;
    commit_checkpoint(request);
  }
  std::vector<int64_t> left() const {
    std::vector<int64_t> out;
    for (const auto& [step, path] : list_checkpoints(folder_)) out.push_back(step);
    return out;
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::vector<std::string> warnings_;
};

TEST_F(RetentionTest, AnotherRunsCheckpointsAreNeitherCountedNorRemoved) {
  save(3, "other");
  for (const int64_t step : {1, 2, 4, 5}) save(step, "mine");
  apply_retention(folder_, 5, "mine", {2, 0, 0});
  EXPECT_THAT(left(), ElementsAre(3, 4, 5));
}

TEST_F(RetentionTest, ALaterStepIsLeftAloneWithOneWarning) {
  save(5000, "mine");
  for (const int64_t step : {8, 9, 10}) {
    save(step, "mine");
    apply_retention(folder_, step, "mine", {1, 0, 0});
    EXPECT_THAT(left(), ElementsAre(step, 5000));
  }
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("step-5000"), HasSubstr("another run")));
}

TEST_F(RetentionTest, TheLossesStandInTheManifests) {
  save(1, "mine", 2.0);
  save(2, "mine", 1.0);
  save(3, "mine", std::numeric_limits<double>::quiet_NaN());
  save(4, "mine", 3.0);
  save(5, "mine");
  apply_retention(folder_, 5, "mine", {1, 0, 1});
  EXPECT_THAT(left(), ElementsAre(2, 5));
  EXPECT_EQ(read_manifest(step_folder(folder_, 2)).validation_loss, 1.0);
  EXPECT_EQ(read_manifest(step_folder(folder_, 5)).validation_loss, std::nullopt);
  EXPECT_EQ(read_manifest(step_folder(folder_, 5)).run, "mine");
}

TEST_F(RetentionTest, ADamagedOneIsNotCountedAsKept) {
  for (const int64_t step : {1, 2, 3}) save(step, "mine");
  fs::resize_file(step_folder(folder_, 2) / "manifest.json", 5);
  apply_retention(folder_, 3, "mine", {2, 0, 0});
  EXPECT_THAT(left(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace trainctl
