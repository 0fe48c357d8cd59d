#include "trainctl/train/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "support/testing.h"
#include "trainctl/base/process.h"

namespace trainctl {
namespace {

using testing::HasSubstr;

class RunDirectoryTest : public testing::Test {
 protected:
  std::string refusal(const std::string& name, bool fresh = false) const {
    return refusal_of(ExitCode::kUsage, [&] { RunDirectory directory(folder_, name, fresh); });
  }

  TemporaryFolder temporary_;
  std::string folder_ = temporary_.path().string();
};

TEST_F(RunDirectoryTest, HoldsTheLockWhileItLivesAndReleasesIt) {
  {
    RunDirectory directory(folder_, "a/b", false);
    EXPECT_TRUE(fs::is_directory(directory.checkpoints()));
    EXPECT_TRUE(fs::is_directory(directory.logs()));
    const std::string message = refusal("a/b");
    EXPECT_THAT(message, HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_THAT(message, HasSubstr("run.name"));
  }
  EXPECT_EQ(refusal("a/b"), "");
}

TEST_F(RunDirectoryTest, TakesOverTheLockOfADeadProcessButNotOfAnotherHost) {
  fs::create_directories(fs::path(folder_) / "run");
  const fs::path lock = fs::path(folder_) / "run" / ".lock";
  ProcessIdentity dead = ProcessIdentity::self();
  dead.start_time = "1";
  std::ofstream(lock) << dead.to_string();
  EXPECT_EQ(refusal("run"), "");

  ProcessIdentity elsewhere = ProcessIdentity::self();
  elsewhere.host = "another-host";
  std::ofstream(lock) << elsewhere.to_string();
  EXPECT_THAT(refusal("run"), HasSubstr("another-host"));

  // Its owner has not touched it for an hour.
  fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(refusal("run"), "");
}

TEST_F(RunDirectoryTest, ADamagedLockIsHeldUntilItIsOldAndTheCureIsNamed) {
  fs::create_directories(fs::path(folder_) / "run");
  const fs::path lock = fs::path(folder_) / "run" / ".lock";
  std::ofstream(lock) << "";
  EXPECT_THAT(refusal("run"), HasSubstr("delete " + lock.string()));
  fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(refusal("run"), "");
  fs::create_directories(lock);
  EXPECT_THAT(refusal("run"), HasSubstr("no lock file"));
}

TEST_F(RunDirectoryTest, StartingFreshKeepsTheOldRunUnderANewName) {
  {
    RunDirectory directory(folder_, "run", false);
    std::ofstream(directory.resolved_config()) << "{}";
    std::ofstream(directory.metrics()) << "old";
  }
  { RunDirectory directory(folder_, "run", true); }
  { RunDirectory directory(folder_, "run", true); }
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "run" / "metrics.jsonl"));
  EXPECT_EQ(read_file(fs::path(folder_) / "run.old-1" / "metrics.jsonl", ExitCode::kData), "old");
}

TEST_F(RunDirectoryTest, AFolderInWhichNoRunBeganGoesAgain) {
  { RunDirectory directory(folder_ + "/new/deeper", "run", false); }
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "new"));
  fs::create_directories(fs::path(folder_) / "there" / "run");
  { RunDirectory directory(folder_ + "/there", "run", false); }
  EXPECT_TRUE(fs::is_directory(fs::path(folder_) / "there" / "run"));
}

TEST_F(RunDirectoryTest, AFileInTheWayIsNamed) {
  std::ofstream(fs::path(folder_) / "taken") << "x";
  EXPECT_THAT(refusal("taken"), HasSubstr("taken' is a file"));
  EXPECT_THAT(refusal("taken/below"), HasSubstr("taken' is a file"));
}

TEST_F(RunDirectoryTest, ManyAtOnceMakeTheFolderWithoutARaceAndOneGetsIt) {
  std::atomic<int> got{0};
  std::vector<std::thread> threads;
  std::atomic<bool> release{false};
  std::atomic<int> refused{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      try {
        RunDirectory directory(folder_, "deep/er/run", false);
        ++got;
        while (!release) std::this_thread::yield();
      } catch (const UserError&) {
        if (++refused == 7) release = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(refused, 7);
}

}  // namespace
}  // namespace trainctl
