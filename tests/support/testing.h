// What the unit tests of several layers share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

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

 private:
  fs::path path_;
};

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
