#include "trainctl/checkpoint/checkpoint_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>

#include "../parallel/rank_threads.h"
#include "support/testing.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using std::chrono::milliseconds;

// A state of a few tensors whose values are the step.
struct State {
  at::Tensor a = at::zeros({300, 10}), b = at::zeros({7}), moment = at::zeros({300, 10});

  CheckpointContent at_step(int64_t step) const {
    for (const at::Tensor& tensor : {a, b, moment}) tensor.fill_(step);
    CheckpointContent content;
    content.step = step;
    content.model = {{"a", a}, {"b", b}};
    content.optimizer = {{"a.exp_avg", moment}, {"b.exp_avg", b}};
    content.state_json = "{\"step\": " + std::to_string(step) + "}";
    return content;
  }
};

void expect_step(const fs::path& checkpoints, int64_t step) {
  const LoadedCheckpoint loaded = load_checkpoint(checkpoints / ("step-" + std::to_string(step)));
  EXPECT_EQ(loaded.step, step);
  EXPECT_TRUE(at::equal(loaded.model.tensor("a"), at::full({300, 10}, static_cast<double>(step))));
  EXPECT_TRUE(at::equal(loaded.model.tensor("b"), at::full({7}, static_cast<double>(step))));
  EXPECT_TRUE(at::equal(loaded.optimizer.tensor("a.exp_avg"),
                        at::full({300, 10}, static_cast<double>(step))));
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

// A disk that can be held up.
class Disk {
 public:
  std::function<void()> hook() {
    return [this] {
      while (held_) std::this_thread::sleep_for(milliseconds(1));
    };
  }
  void hold() { held_ = true; }
  void release() { held_ = false; }

 private:
  std::atomic<bool> held_{false};
};

class SaverTest : public ::testing::Test {
 protected:
  SaverOptions options(Retention retention = {10, 0, 0}) {
    SaverOptions options;
    options.checkpoints = checkpoints_;
    options.run = "run";
    options.retention = retention;
    options.before_write = disk_.hook();
    return options;
  }
  // What the loop does with a vote that says all have settled.
  static SaveOutcome wait_for(CheckpointSaver& saver) {
    while (saver.busy()) {
      if (saver.settled()) saver.advance();
    }
    return saver.take_outcome().value();
  }

  TemporaryFolder temporary_;
  fs::path checkpoints_ = temporary_.path() / "checkpoints";
  Disk disk_;
  State state_;
  std::unique_ptr<Communicator> single_ = make_single_communicator();
};

TEST_F(SaverTest, WhatIsSavedIsTheStateOfTheStepNotOfTheTimeOfWriting) {
  CheckpointSaver saver(options(), draw_token(), at::kCPU, *single_);
  disk_.hold();
  saver.begin(state_.at_step(3), false);
  EXPECT_TRUE(saver.busy());
  EXPECT_FALSE(saver.settled());
  state_.a.fill_(99);  // training goes on
  state_.moment.fill_(99);
  disk_.release();
  const SaveOutcome outcome = wait_for(saver);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.asynchronous);
  EXPECT_LT(outcome.stall, outcome.seconds);
  expect_step(checkpoints_, 3);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-3"));
  EXPECT_FALSE(saver.take_outcome().has_value());
}

TEST_F(SaverTest, ASlowDiskIsWaitedForOnlyAsLongAsIsSaid) {
  CheckpointSaver saver(options(), draw_token(), at::kCPU, *single_);
  disk_.hold();
  saver.begin(state_.at_step(1), false);
  EXPECT_TRUE(saver.ready());  // it may still be a quick one
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(saver.finish(CheckpointSaver::kPatience));
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, CheckpointSaver::kPatience);
  EXPECT_FALSE(saver.ready());  // and now it is known that it is none
  EXPECT_EQ(saver.step(), 1);
  disk_.release();
  EXPECT_TRUE(saver.finish());
  EXPECT_EQ(saver.take_outcome()->error, "");
  expect_step(checkpoints_, 1);
}

TEST_F(SaverTest, AnErrorIsToldAndTheNextSaveIsTried) {
  CheckpointSaver saver(options(), draw_token(), at::kCPU, *single_);
  std::ofstream(checkpoints_).put('x');  // a file where the folder should be
  saver.begin(state_.at_step(1), false);
  const SaveOutcome failed = wait_for(saver);
  EXPECT_THAT(failed.error, AllOf(HasSubstr(checkpoints_.string()), HasSubstr("Not a directory")));
  fs::remove(checkpoints_);
  saver.begin(state_.at_step(2), false);
  EXPECT_EQ(wait_for(saver).error, "");
  expect_step(checkpoints_, 2);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-2"));
}

TEST_F(SaverTest, ItsEndBringsTheSaveOfASingleProcessToItsEnd) {
  {
    CheckpointSaver saver(options(), draw_token(), at::kCPU, *single_);
    disk_.hold();
    saver.begin(state_.at_step(5), false);
    disk_.release();
  }
  expect_step(checkpoints_, 5);
}

TEST_F(SaverTest, WithoutAsyncItHasEndedWhenBeginReturns) {
  SaverOptions waiting = options();
  waiting.asynchronous = false;
  CheckpointSaver saver(waiting, draw_token(), at::kCPU, *single_);
  saver.begin(state_.at_step(1), false);
  EXPECT_FALSE(saver.busy());
  EXPECT_FALSE(saver.take_outcome()->asynchronous);
  CheckpointSaver last(options(), draw_token(), at::kCPU, *single_);
  last.begin(state_.at_step(2), true);
  EXPECT_FALSE(last.take_outcome()->asynchronous);
  expect_step(checkpoints_, 1);
  expect_step(checkpoints_, 2);
}

TEST_F(SaverTest, ManyAsynchronousSavesInARow) {
  CheckpointSaver saver(options({2, 10, 0}), draw_token(), at::kCPU, *single_);
  saver.prepare(state_.at_step(0));
  for (int64_t step = 1; step <= 30; ++step) {
    ASSERT_TRUE(saver.finish(CheckpointSaver::kPatience) || saver.finish());
    if (step > 1) {
      EXPECT_EQ(saver.take_outcome()->error, "");
    }
    saver.begin(state_.at_step(step), false);
  }
  saver.finish();
  EXPECT_THAT(entries(checkpoints_),
              UnorderedElementsAre("step-10", "step-20", "step-29", "step-30"));
  for (const int64_t step : {10, 20, 29, 30}) expect_step(checkpoints_, step);
}

TEST_F(SaverTest, RanksWriteShardsOfOneCheckpoint) {
  for (const int64_t ranks : {2, 3}) {
    const auto errors = RankThreads().run(ranks, [&](Communicator& c) {
      SaverOptions small = options();
      small.shard_bytes = 1000;
      const std::string token = c.from_main(c.is_main() ? draw_token() : "", "test");
      CheckpointSaver saver(small, token, at::kCPU, c);
      State state;
      for (const int64_t step : {ranks * 10, ranks * 10 + 1}) {
        saver.begin(state.at_step(step), step % 10 == 1);
        saver.finish();
        const SaveOutcome outcome = saver.take_outcome().value();
        EXPECT_EQ(outcome.error, "");
        EXPECT_EQ(outcome.step, step);
      }
    });
    EXPECT_THAT(errors, ::testing::Each(""));
    expect_step(checkpoints_, ranks * 10);
    expect_step(checkpoints_, ranks * 10 + 1);
    EXPECT_THAT(entries(checkpoints_ / ("step-" + std::to_string(ranks * 10))),
                UnorderedElementsAre(
                    "COMPLETE", "manifest.json", "state.json", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                    "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
                    "optimizer.safetensors.index.json"));
  }
}

TEST_F(SaverTest, WhereOneRankFailsTheSaveFailsOnAllAndLeavesNothing) {
  const auto errors = RankThreads().run(3, [&](Communicator& c) {
    SaverOptions small = options();
    small.shard_bytes = 1000;
    bool broken = c.world().rank == 1;
    small.before_write = [&broken] {
      if (broken) throw checkpoint_error("/disk/x: cannot write the file: Input/output error");
    };
    const std::string token = c.from_main(c.is_main() ? draw_token() : "", "test");
    CheckpointSaver saver(small, token, at::kCPU, c);
    State state;
    saver.begin(state.at_step(1), false);
    saver.finish();
    EXPECT_THAT(saver.take_outcome()->error,
                AllOf(HasSubstr("rank 1"), HasSubstr("/disk/x"), HasSubstr("Input/output error")));
    c.barrier("test");
    if (c.is_main()) {
      EXPECT_THAT(entries(checkpoints_), ElementsAre());
    }
    c.barrier("test");
    broken = false;
    saver.begin(state.at_step(2), false);
    saver.finish();
    EXPECT_EQ(saver.take_outcome()->error, "");
  });
  EXPECT_THAT(errors, ::testing::Each(""));
  expect_step(checkpoints_, 2);
}

TEST_F(SaverTest, ASlowRankPutsTheNextSaveOffOnAll) {
  const auto errors = RankThreads().run(2, [&](Communicator& c) {
    std::atomic<bool> held{c.world().rank == 1};
    SaverOptions slow = options();
    slow.before_write = [&held] {
      while (held) std::this_thread::sleep_for(milliseconds(1));
    };
    const std::string token = c.from_main(c.is_main() ? draw_token() : "", "test");
    CheckpointSaver saver(slow, token, at::kCPU, c);
    State state;
    saver.begin(state.at_step(1), false);
    EXPECT_FALSE(saver.finish(milliseconds(30)));
    EXPECT_TRUE(saver.busy());
    held = false;
    EXPECT_TRUE(saver.finish());
    EXPECT_EQ(saver.take_outcome()->error, "");
  });
  EXPECT_THAT(errors, ::testing::Each(""));
  expect_step(checkpoints_, 1);
}

}  // namespace
}  // namespace trainctl
