// What the unit tests of several layers share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"

namespace trainctl {

// A folder of a test's own, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "trainctl-test-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
    EXPECT_FALSE(path_.empty());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  // A file below it, with the folders on the way.
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << content;
  }

 private:
  fs::path path_;
};

// A made-up root of a file system, for what reads /proc and /sys.
using FakeRoot = TemporaryFolder;

// The message of the UserError that `action` throws, whose code must be `code`; empty without one.
template <typename Action>
std::string refusal_of(ExitCode code, const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

}  // namespace trainctl
