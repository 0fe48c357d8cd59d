// The two streams a person sees. Results go to stdout, records of the logger to stderr; a transient
// progress line on stdout gives way to both.
#pragma once

#include <mutex>
#include <string>

#include "trainctl/base/log.h"

namespace trainctl {

class Terminal {
 public:
  Terminal();
  void print(const std::string& text);     // to stdout, as it is
  void progress(const std::string& line);  // redrawn in place; only on a terminal; "" clears it
  bool flush();                            // false when stdout could not be written, errno says why
  // For a run: output that nobody reads any more is dropped, and no failure.
  void tolerate_write_errors();
  bool is_terminal() const { return is_terminal_; }
  int width() const;  // columns, at least 20

  // Runs `write` (to stderr) with the progress line out of the way.
  template <class Write>
  void around_progress(Write write) {
    const std::lock_guard<std::mutex> lock(mutex_);
    clear_progress();
    write();
    draw_progress();
  }

 private:
  void clear_progress();
  void draw_progress();

  std::mutex mutex_;
  std::string progress_;
  bool is_terminal_ = false;
  bool tolerant_ = false;
  int write_error_ = 0;
};

Terminal& terminal();

// "trainctl: warning: …" on stderr, coloured on a terminal unless NO_COLOR is set (no-color.org).
LogSink terminal_log_sink();

}  // namespace trainctl
