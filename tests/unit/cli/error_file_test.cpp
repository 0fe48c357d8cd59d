#include "cli/error_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/testing.h"

namespace trainctl {
namespace {

using ::testing::ElementsAre;

class ErrorFile : public testing::Test {
 protected:
  ~ErrorFile() override { ::unsetenv("TORCHELASTIC_ERROR_FILE"); }

  LogSink sink_for(const fs::path& path) {
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    return with_error_file([this](LogLevel, const std::string& text) { shown_.push_back(text); });
  }
  std::string message(const fs::path& path) const {
    const auto json = nlohmann::json::parse(read_file(path, ExitCode::kTrainingFailed));
    return json.at("message").at("message").get<std::string>();
  }

  TemporaryFolder folder_;
  std::vector<std::string> shown_;
};

TEST_F(ErrorFile, HasTorchrunsFields) {
  const auto json = nlohmann::json::parse(error_file_text("no such file 'a\xff'", 1700000000));
  const auto& message = json.at("message");
  EXPECT_EQ(message.at("message"), "no such file 'a\xef\xbf\xbd'");
  EXPECT_EQ(message.at("extraInfo").at("timestamp"), "1700000000");
  EXPECT_EQ(message.at("extraInfo").at("py_callstack"), message.at("message"));
}

TEST_F(ErrorFile, KeepsTheLastErrorAndNothingElse) {
  const fs::path path = folder_.path() / "error.json";
  const LogSink sink = sink_for(path);
  sink(LogLevel::kWarning, "a warning");
  EXPECT_FALSE(fs::exists(path));
  sink(LogLevel::kError, "first");
  sink(LogLevel::kError, "second");
  EXPECT_EQ(message(path), "second");
  EXPECT_THAT(shown_, ElementsAre("a warning", "first", "second"));
  const fs::directory_iterator files(folder_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);  // no temporary one
}

TEST_F(ErrorFile, ThatCannotBeWrittenChangesNothing) {
  const fs::path fifo = folder_.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const fs::path& path : {folder_.path() / "none/error.json", folder_.path(), fifo}) {
    shown_.clear();
    sink_for(path)(LogLevel::kError, "the error");
    EXPECT_THAT(shown_, ElementsAre("the error")) << path;
  }
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST_F(ErrorFile, IsNotMadeWhereNobodyAsksForOne) {
  ::setenv("TORCHELASTIC_ERROR_FILE", "", 1);
  with_error_file([](LogLevel, const std::string&) {})(LogLevel::kError, "the error");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace trainctl
