#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {

// A made-up environment.
inline EnvironmentLookup environment_of(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// A made-up root of a file system.
class FakeRoot {
 public:
  FakeRoot() {
    std::string path = (fs::temp_directory_path() / "trainctl_launch_XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~FakeRoot() { fs::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << content;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// What a refusal says; empty when nothing was refused.
template <class Function>
std::string refusal(Function function, ExitCode code = ExitCode::kUsage) {
  try {
    function();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace trainctl
