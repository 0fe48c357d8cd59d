#include "trainctl/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "support/testing.h"

namespace trainctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FilesTest : public testing::Test {
 protected:
  void touch(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << name;
  }
  std::vector<std::string> glob(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const fs::path& path : expand_glob((folder_ / pattern).string())) {
      names.push_back(fs::relative(path, folder_).string());
    }
    return names;
  }
  std::string error_of(const std::function<void()>& action, ExitCode code) const {
    return refusal_of(code, action);
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(FilesTest, AtomicWriteReplacesAndLeavesNoTemporaryFile) {
  const fs::path file = folder_ / "a.txt";
  write_file_atomic(file, "one", ExitCode::kUsage);
  write_file_atomic(file, "two", ExitCode::kUsage);
  EXPECT_EQ(read_file(file, ExitCode::kUsage), "two");
  EXPECT_THAT(glob("*"), ElementsAre("a.txt"));
}

TEST_F(FilesTest, FailedAtomicWriteNamesPathAndReasonAndKeepsTheOldFile) {
  const fs::path target = folder_ / "taken";
  fs::create_directories(target / "inside");
  const std::string message = error_of(
      [&] { write_file_atomic(target, "x", ExitCode::kCheckpoint); }, ExitCode::kCheckpoint);
  EXPECT_THAT(message, HasSubstr(target.string()));
  EXPECT_TRUE(fs::is_directory(target / "inside"));
  EXPECT_THAT(glob("*"), IsEmpty());
}

TEST_F(FilesTest, ReadingAMissingFileOrAFolderNamesIt) {
  EXPECT_THAT(error_of([&] { read_file(folder_ / "none", ExitCode::kData); }, ExitCode::kData),
              HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { read_file(folder_, ExitCode::kData); }, ExitCode::kData),
              HasSubstr("Is a directory"));
}

TEST_F(FilesTest, ReadingARegularFileDoesNotWaitForAFifo) {
  touch("plain");
  EXPECT_EQ(read_regular_file(folder_ / "plain", ExitCode::kCheckpoint), "plain");
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_regular_file(folder_ / "fifo", ExitCode::kCheckpoint); },
                       ExitCode::kCheckpoint),
              HasSubstr("not a regular file"));
}

TEST_F(FilesTest, GlobsMatchAtAnyDepthSortedWithoutHiddenFiles) {
  for (const char* name :
       {"b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/e.md", ".hidden/f.txt"})
    touch(name);
  EXPECT_THAT(glob("*.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(glob("**/*.txt"), ElementsAre("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"));
  EXPECT_THAT(glob("sub/**"), ElementsAre("sub/c.txt", "sub/deep/d.txt", "sub/e.md"));
  EXPECT_THAT(glob("s?b/[de].*"), ElementsAre("sub/e.md"));
  EXPECT_THAT(glob("*.json"), IsEmpty());
}

TEST_F(FilesTest, APatternWithoutWildcardIsReturnedAsItIs) {
  EXPECT_THAT(expand_glob("no/such/file"), ElementsAre(fs::path("no/such/file")));
}

TEST_F(FilesTest, PathsExpandHomeVariablesAndConfigDir) {
  ::setenv("TRAINCTL_TEST_DIR", "/data", 1);
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(expand_path("~/x", "/c"), "/home/me/x");
  EXPECT_EQ(expand_path("$TRAINCTL_TEST_DIR/x", "/c"), "/data/x");
  EXPECT_EQ(expand_path("${CONFIG_DIR}/../x", "/c"), "/c/../x");
  EXPECT_EQ(expand_path("a~b", "/c"), "a~b");
}

TEST_F(FilesTest, AnUnsetOrTornVariableIsAUsageErrorThatNamesIt) {
  ::unsetenv("TRAINCTL_UNSET");
  EXPECT_THAT(error_of([] { expand_path("$TRAINCTL_UNSET/x", ""); }, ExitCode::kUsage),
              HasSubstr("TRAINCTL_UNSET"));
  EXPECT_THAT(error_of([] { expand_path("${HOME/x", ""); }, ExitCode::kUsage),
              HasSubstr("${HOME/x"));
}

TEST_F(FilesTest, StreamedChecksumEqualsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i);
  const auto bytes = std::as_bytes(std::span(text));
  Checksum streamed;
  streamed.update(bytes.first(1234));
  streamed.update(bytes.subspan(1234));
  EXPECT_EQ(streamed.digest(), checksum(bytes));
  EXPECT_NE(checksum(bytes), checksum(bytes.first(bytes.size() - 1)));
  EXPECT_EQ(to_hex(0xabcU), "0000000000000abc");
}

}  // namespace
}  // namespace trainctl
