#include "trainctl/train/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainingState example() {
  TrainingState state;
  state.step = 12;
  state.tokens = 3456;
  state.position = {2, 7};
  state.seconds = 1.5;
  state.nonfinite_run = 1;
  state.scaler = {1024.0, 17};
  state.last_loss = std::numeric_limits<double>::quiet_NaN();
  state.dataset_fingerprint = "abc";
  state.threads = 2;
  return state;
}

TEST(TrainingState, SurvivesJsonAndWritesNoNanLiterals) {
  const TrainingState state = example();
  const std::string text = state_to_json(state, Config{});
  EXPECT_EQ(text.find("nan"), std::string::npos);
  const TrainingState read = state_from_json(text, "x").state;
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.tokens, 3456);
  EXPECT_EQ(read.position, (DataPosition{2, 7}));
  EXPECT_EQ(read.nonfinite_run, 1);
  EXPECT_EQ(read.scaler.scale, 1024.0);
  EXPECT_EQ(read.scaler.growth_tracker, 17);
  EXPECT_EQ(read.best_validation_loss, std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.last_loss, std::nullopt);
  EXPECT_EQ(read.dataset_fingerprint, "abc");
  EXPECT_EQ(read.threads, 2);
}

std::string refusal(const std::string& text) {
  try {
    state_from_json(text, "step-9");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    return error.what();
  }
  return "accepted";
}

TEST(TrainingState, RefusesTornForeignAndNonsenseStates) {
  const std::string good = state_to_json(example(), Config{});
  EXPECT_THAT(refusal(good.substr(0, good.size() / 2)), HasSubstr("step-9"));
  EXPECT_THAT(refusal("{}"), HasSubstr("format"));
  nlohmann::json json = nlohmann::json::parse(good);
  json["format"] = 99;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("99"));
  json = nlohmann::json::parse(good);
  json["step"] = "12";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("state.json"));
  json["step"] = -1;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("negative"));
}

TEST(TrainingState, ShowsConfigDifferencesByKeyPathAndRefusesAnotherModel) {
  Config saved, now;
  now.optimizer.learning_rate = 1e-3;
  now.logging.interval = 3;
  const std::string saved_json = state_from_json(state_to_json(example(), saved), "x").config_json;
  EXPECT_THAT(config_differences(saved_json, now, "x"),
              ElementsAre(HasSubstr("optimizer.learning_rate"), HasSubstr("logging.interval")));
  now.model.d_model = 64;
  try {
    config_differences(saved_json, now, "step-9");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.d_model"));
    EXPECT_THAT(error.what(), HasSubstr("step-9"));
  }
}

}  // namespace
}  // namespace trainctl
