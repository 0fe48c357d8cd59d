#include "launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Feeds the parts one after another; a progress line is marked with "~", a cut one with "+", one
// that the end of the stream ends with "$".
std::vector<std::string> split(const std::vector<std::string>& parts, size_t longest = 100) {
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line, LineSplitter::End end) {
    const char* marks[] = {"", "~", "+", "$"};
    lines.push_back(std::string(line) + marks[static_cast<size_t>(end)]);
  };
  LineSplitter splitter(longest);
  for (const std::string& part : parts) splitter.feed(part, keep);
  splitter.finish(keep);
  return lines;
}

TEST(LineSplitter, LinesAreWholeHoweverTheyArrive) {
  EXPECT_THAT(split({"one\ntw", "o\nthree"}), ElementsAre("one", "two", "three$"));
  EXPECT_THAT(split({"", "a", "", "\n", "\n"}), ElementsAre("a", ""));
}

TEST(LineSplitter, ARandomCutChangesNothing) {
  const std::string text = "alpha\r\nbeta\n\ngamma\rdelta\n\r\nlast\r";
  const auto whole = split({text});
  EXPECT_THAT(whole, ElementsAre("alpha", "beta", "", "gamma~", "delta", "", "last$"));
  for (size_t i = 0; i <= text.size(); ++i)
    EXPECT_EQ(split({text.substr(0, i), text.substr(i)}), whole) << i;
}

TEST(LineSplitter, ProgressLinesEndAtTheReturn) {
  EXPECT_THAT(split({"10%\r", "20%\r30%", "\n"}), ElementsAre("10%~", "20%~", "30%"));
}

TEST(LineSplitter, LongLinesAreCut) {
  EXPECT_THAT(split({"abcdefgh", "ij\n", "k\n"}, 4), ElementsAre("abcd+", "efgh+", "ij", "k"));
}

TEST(OutputTail, KeepsTheLastLinesInOrder) {
  OutputTail tail;
  for (int i = 0; i < 50; ++i) tail.add("line " + std::to_string(i));
  tail.add("   ");  // says nothing
  ASSERT_THAT(tail.lines(), SizeIs(OutputTail::kLines));
  EXPECT_EQ(tail.lines().front(), "line 30");
  EXPECT_EQ(tail.lines().back(), "line 49");
}

TEST(OutputTail, CutsLongLinesBetweenCharacters) {
  OutputTail tail;
  tail.add(std::string(OutputTail::kLongest - 1, 'a') + "ä" + std::string(100, 'b'));
  EXPECT_EQ(tail.lines()[0], std::string(OutputTail::kLongest - 1, 'a') + "…");
}

class QueueOnPipe : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    ASSERT_EQ(pipe(ends_), 0);
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
  }
  void TearDown() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  std::string read_all(ConsoleQueue* queue) {
    std::string text;
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    char buffer[8192];
    while (true) {
      queue->write_ready();
      const ssize_t got = read(ends_[0], buffer, sizeof buffer);
      if (got <= 0) return text;
      text.append(buffer, static_cast<size_t>(got));
    }
  }
  int ends_[2] = {-1, -1};
};

TEST_F(QueueOnPipe, NeverWaitsAndKeepsOrder) {
  ConsoleQueue queue(ends_[1], 1 << 20);
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string line = "line " + std::to_string(i);
    queue.add("[0] ", line, "\n");
    queue.write_ready();
    expected += "[0] " + line + "\n";
  }
  EXPECT_EQ(read_all(&queue), expected);
  EXPECT_TRUE(queue.empty());
}

TEST_F(QueueOnPipe, LeavesOutWholeLinesAndSaysHowMany) {
  ConsoleQueue queue(ends_[1], 10000);
  const std::string line(99, 'x');
  for (int i = 0; i < 200; ++i) queue.add("", line, "\n");
  std::string text = read_all(&queue);
  queue.add("", "after", "\n");
  text += read_all(&queue);
  EXPECT_THAT(text, HasSubstr("trainctl: warning: 100 lines"));
  EXPECT_THAT(text, HasSubstr("\nafter\n"));
  EXPECT_EQ(text.find(line + "x"), std::string::npos);
}

TEST_F(QueueOnPipe, FinishGivesUpOnAReaderThatDoesNotMove) {
  ConsoleQueue queue(ends_[1], 1 << 20);
  queue.add("", std::string(100000, 'x'), "\n");
  const auto start = std::chrono::steady_clock::now();
  queue.finish(std::chrono::milliseconds(100), [] { return false; });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_FALSE(queue.empty());
}

TEST_F(QueueOnPipe, AReaderThatWentAwayIsNoticed) {
  ConsoleQueue queue(ends_[1], 1 << 20);
  close(ends_[0]);
  queue.add("", "x", "\n");
  queue.write_ready();
  EXPECT_TRUE(queue.closed());
  EXPECT_TRUE(queue.empty());
  ends_[0] = open("/dev/null", O_RDONLY);
}

}  // namespace
}  // namespace trainctl
