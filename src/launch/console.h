// The launcher's own two streams. What the ranks print is queued and written as fast as the screen,
// pipe or file takes it, never waiting for it; what does not fit into the bounded queue is left
// out, in whole lines and counted.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "trainctl/base/log.h"

namespace trainctl {

class ConsoleQueue {
 public:
  // `capacity`: bytes held at most.
  ConsoleQueue(int fd, size_t capacity);

  void add(std::string_view prefix, std::string_view text, std::string_view end);
  // The launcher's own words: never left out, however much is held.
  void add_always(std::string_view prefix, std::string_view text, std::string_view end);
  // Writes what can be written without waiting.
  void write_ready();
  bool empty() const { return size_ == 0; }
  bool in_a_line() const { return last_byte_ != '\n'; }
  // The reader went away (EPIPE, a terminal hung up).
  bool closed() const { return closed_; }
  // Why writing fails though somebody may still read (a full disk); 0: it does not.
  int write_error() const { return write_error_; }
  // Full, but taking at least 100 MB/s: pausing the ranks for a moment loses nothing, and does not
  // hold them below that rate.
  bool wants_pause() const;
  size_t lines_added() const { return lines_added_; }
  int fd() const { return fd_; }
  // Waits for the rest to be written, as long as some of it goes out every `patience` and `hurry`
  // does not say that somebody waits.
  void finish(std::chrono::milliseconds patience, bool (*hurry)());

 private:
  bool write_some();  // false: nothing could be written now
  void append(std::string_view text);
  void report_dropped();
  void count_written(size_t bytes);

  int fd_;
  size_t capacity_;
  size_t write_size_;
  std::deque<std::string> blocks_;
  size_t head_ = 0;  // written bytes of the first block
  size_t size_ = 0;
  size_t lines_added_ = 0;
  char last_byte_ = '\n';
  size_t dropped_lines_ = 0;
  bool closed_ = false;
  int write_error_ = 0;
  std::chrono::steady_clock::time_point window_start_;
  size_t window_bytes_ = 0;
  double bytes_per_second_ = 0;
};

class Console {
 public:
  explicit Console(size_t capacity = size_t{64} << 20);

  enum class Stream { kOut, kError };
  ConsoleQueue& queue(Stream stream) {
    return stream == Stream::kOut || error_is_out_ ? out_ : error_;
  }
  // A record of the launcher itself, as the logger shows it: "trainctl: warning: …" on stderr.
  void message(LogLevel level, const std::string& text);
  // Says once on stderr that stdout cannot be written.
  void report_write_error();
  // For poll(2): asks for POLLOUT where something waits, and always for errors of stdout.
  void add_to(std::vector<pollfd>* fds) const;
  void write_ready();
  // Both streams go to the same place.
  bool is_one_stream() const { return error_is_out_; }
  // stdout's reader is gone, whether or not something waits for it.
  bool stdout_closed() const;
  void finish(std::chrono::milliseconds patience, bool (*hurry)());

 private:
  ConsoleQueue out_, error_;
  // Both are the same pipe, file or terminal: one queue keeps lines whole and in order.
  bool error_is_out_ = false;
  bool colours_ = false;
  bool write_error_reported_ = false;
};

}  // namespace trainctl
