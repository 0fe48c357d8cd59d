#include "launch/log_folders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>

#include "support/testing.h"

namespace trainctl {
namespace {

class LaunchTemporaryFolders : public ::testing::Test {
 protected:
  LaunchTemporaryFolders() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~LaunchTemporaryFolders() override { ::unsetenv("TMPDIR"); }

  static void make_old(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  TemporaryFolder folder_;
  LaunchOptions options_;
  NodeAssignment node_;
};

TEST_F(LaunchTemporaryFolders, GoWithTheirLauncherAndThoseOfDeadOnesAtTheNextStart) {
  const fs::path stale = folder_.path() / "trainctl_launch_abcdef",
                 young = folder_.path() / "trainctl_launch_ghijkl",
                 logs = folder_.path() / "trainctl_logs_abcdef", other = folder_.path() / "mine";
  for (const fs::path& path : {stale, young, logs, other}) {
    fs::create_directories(path / "attempt_0");
    if (path != young) make_old(path);
  }
  {
    const LogFolders first(options_, node_);
    EXPECT_FALSE(fs::exists(stale));
    for (const fs::path& path : {young, logs, other}) EXPECT_TRUE(fs::exists(path)) << path;
    make_old(first.run_folder());
    const LogFolders second(options_, node_);
    EXPECT_TRUE(fs::exists(first.run_folder()));  // its launcher lives
    EXPECT_FALSE(second.temporary().empty());
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 3);
}

}  // namespace
}  // namespace trainctl
