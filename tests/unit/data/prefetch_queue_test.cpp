// Also built alone with the thread sanitizer (docs/data.md): nothing here needs a tensor.
#include "data/prefetch_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace trainctl {
namespace {

// Takes longer for some jobs than for others, so that workers overtake each other.
void work_unevenly(int job) {
  std::this_thread::sleep_for(std::chrono::microseconds(job * 37 % 400));
}

TEST(PrefetchQueue, HandsOutInTheOrderOfDrawingWithAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 5}) {
    for (const int depth : {1, 2, 3, 8}) {
      int drawn = 0;  // without a lock of its own: the sanitizer checks that the queue gives one
      PrefetchQueue<int, std::unique_ptr<int>> queue(
          workers, depth, [&] { return drawn++; },
          [](const int& job) {
            work_unevenly(job);
            return std::make_unique<int>(job * 10);
          });
      for (int i = 0; i < 60; ++i) ASSERT_EQ(*queue.next(), i * 10) << workers << " " << depth;
    }
  }
}

TEST(PrefetchQueue, WorksAheadAsFarAsItsDepthAndNoFurther) {
  std::atomic<int> drawn = 0;
  PrefetchQueue<int, int> queue(
      2, 3, [&] { return drawn++; }, [](const int& job) { return job; });
  const auto grows_to = [&](int least) {
    for (int i = 0; i < 2000 && drawn < least; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for what should not come
    return drawn.load();
  };
  EXPECT_EQ(grows_to(3), 3);
  for (int taken = 1; taken <= 9; ++taken) {
    EXPECT_EQ(queue.next(), taken - 1);
    const int ahead = grows_to(taken + 2) - taken;
    EXPECT_GE(ahead, 2);  // workers may sleep until half the queue is empty, and no longer
    EXPECT_LE(ahead, 3);
  }
}

TEST(PrefetchQueue, AJobsExceptionStandsInItsPlaceForGood) {
  int drawn = 0;
  PrefetchQueue<int, int> queue(
      3, 4, [&] { return drawn++; },
      [](const int& job) {
        work_unevenly(job);
        if (job == 5) throw std::runtime_error("job five");
        return job;
      });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(queue.next(), i);
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      queue.next();
      FAIL() << "the failed job was skipped";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "job five");
    }
  }
}

TEST(PrefetchQueue, AnExceptionWhileDrawingIsHandedOutToo) {
  PrefetchQueue<int, int> queue(
      2, 2, []() -> int { throw std::runtime_error("no job"); },
      [](const int& job) { return job; });
  EXPECT_THROW(queue.next(), std::runtime_error);
}

TEST(PrefetchQueue, EndsItsThreadsWhereverTheyStand) {
  std::atomic<int> running = 0;
  for (int taken = 0; taken < 20; ++taken) {
    int drawn = 0;
    PrefetchQueue<int, int> queue(
        3, 4, [&] { return drawn++; },
        [&](const int& job) {
          ++running;
          work_unevenly(job);
          --running;
          return job;
        });
    for (int i = 0; i < taken; ++i) queue.next();
  }
  EXPECT_EQ(running, 0);
}

TEST(PrefetchQueue, ReleasesResultsNobodyTook) {
  const auto token = std::make_shared<int>(0);
  {
    PrefetchQueue<int, std::shared_ptr<int>> queue(
        2, 8, [] { return 0; }, [&](const int&) { return token; });
    queue.next();
  }
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace trainctl
