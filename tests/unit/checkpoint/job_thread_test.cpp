#include "checkpoint/job_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace trainctl {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(JobThread, IsIdleUntilItHasAJob) {
  JobThread thread;
  EXPECT_FALSE(thread.busy());
  thread.wait();
  EXPECT_TRUE(thread.wait_until(Clock::now()));
}

TEST(JobThread, DoesJobsInOrderAndItsWorkIsSeenAfterwards) {
  JobThread thread;
  std::vector<int> done;  // no lock: wait() is one
  for (int round = 0; round < 200; ++round) {
    thread.post([&done, round] { done.push_back(2 * round); });
    thread.post([&done, round] { done.push_back(2 * round + 1); });
    thread.wait();
    EXPECT_FALSE(thread.busy());
    ASSERT_EQ(done.size(), static_cast<size_t>(2 * round + 2));
    EXPECT_EQ(done.back(), 2 * round + 1);
  }
}

TEST(JobThread, SomebodyWhoOnlyAsksSeesTheWorkToo) {
  JobThread thread;
  int result = 0;
  thread.post([&] { result = 7; });
  while (thread.busy()) std::this_thread::yield();
  EXPECT_EQ(result, 7);
}

TEST(JobThread, ASlowJobHoldsUpNobodyButThoseWhoWait) {
  JobThread thread;
  std::promise<void> open;
  thread.post([gate = open.get_future().share()] { gate.wait(); });
  EXPECT_TRUE(thread.busy());
  const auto begin = Clock::now();
  EXPECT_FALSE(thread.wait_until(begin + milliseconds(30)));
  EXPECT_GE(Clock::now() - begin, milliseconds(30));
  EXPECT_TRUE(thread.busy());
  open.set_value();
  EXPECT_TRUE(thread.wait_until(Clock::now() + std::chrono::seconds(60)));
}

TEST(JobThread, WhatAJobHoldsIsGoneOnceItIsDone) {
  JobThread thread;
  auto held = std::make_shared<int>(1);
  thread.post([held] {});
  thread.wait();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(JobThread, ItsEndWaitsForTheJobAtHandAndDropsTheRest) {
  std::atomic<bool> began{false}, ended{false}, second{false};
  {
    JobThread thread;
    thread.post([&] {
      began = true;
      std::this_thread::sleep_for(milliseconds(50));
      ended = true;
    });
    thread.post([&] { second = true; });
    while (!began) std::this_thread::yield();
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(second);
}

TEST(JobThread, ALongJobSeesThatItIsCancelled) {
  JobThread thread;
  std::atomic<bool> saw{false};
  thread.post([&] {
    while (!thread.cancelled()) std::this_thread::yield();
    saw = true;
  });
  thread.cancel();
  thread.wait();
  EXPECT_TRUE(saw);
}

}  // namespace
}  // namespace trainctl
