// What one rank prints on one stream: cut into whole lines for the screen, kept as it is in a file,
// its last lines remembered for the failure report.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/console.h"

namespace trainctl {

// Cuts a stream into lines. A line ends at a newline; a carriage return ends a progress line, of
// which the next is likely to take the place. Longer ones than `longest` are cut.
class LineSplitter {
 public:
  enum class End { kNewline, kProgress, kCut, kStream };
  using OnLine = std::function<void(std::string_view line, End end)>;

  explicit LineSplitter(size_t longest = size_t{1} << 20) : longest_(longest) {}
  void feed(std::string_view bytes, const OnLine& on_line);
  void finish(const OnLine& on_line);  // what no newline has ended

 private:
  void keep(std::string_view piece, const OnLine& on_line);
  void take(std::string_view piece, End end, const OnLine& on_line);

  size_t longest_;
  std::string partial_;
  bool after_return_ = false;  // partial_ ended with a carriage return at the end of a read
};

// The last lines of both streams of a rank.
class OutputTail {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLongest = 500;  // bytes of a line that are kept
  void add(std::string_view line);
  std::vector<std::string> lines() const;

 private:
  std::vector<std::string> lines_;  // a ring: ranks may print a million lines a second
  size_t oldest_ = 0;
};

struct RankOutputTarget {
  Console* console = nullptr;  // null: not shown
  Console::Stream stream = Console::Stream::kOut;
  std::string prefix;  // empty: passed on as it comes, not line by line
  int file = -1;       // owned by RankOutput; -1: none
  OutputTail* tail = nullptr;
};

class RankOutput {
 public:
  // Reads from `pipe`, which it owns and makes non-blocking.
  RankOutput(int pipe, RankOutputTarget target);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  int fd() const { return pipe_; }  // -1 after the end
  // One read; false when nothing was there.
  bool read_some();
  // Reads what is there, then closes; for processes that still hold the pipe's other end.
  void drain_and_close();
  bool paused() const;
  // Number of lines of the screen when this stream's last one was added.
  size_t last_shown_at() const { return last_shown_at_; }
  bool shown() const { return target_.console != nullptr; }

 private:
  void consume(std::string_view bytes);
  void on_line(std::string_view line, LineSplitter::End end);
  void show(std::string_view line);
  void write_file(std::string_view bytes);
  void end_stream();

  int pipe_;
  RankOutputTarget target_;
  LineSplitter splitter_;
  std::vector<char> buffer_;
  std::string waiting_progress_;  // shown when nothing newer comes
  std::chrono::steady_clock::time_point last_progress_;
  size_t last_shown_at_ = 0;
};

}  // namespace trainctl
