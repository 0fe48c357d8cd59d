#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace trainctl {

Terminal& terminal() {
  static Terminal instance;
  return instance;
}

Terminal::Terminal() {
  const char* type = std::getenv("TERM");
  // A terminal that cannot redraw a line is treated as a log file.
  is_terminal_ = isatty(STDOUT_FILENO) == 1 && !(type != nullptr && std::string(type) == "dumb");
}

int Terminal::width() const {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::max<int>(known ? size.ws_col : 80, 20);
}

void Terminal::print(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  clear_progress();
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  // At once, so that a log file shows what a run is doing.
  if ((std::fflush(stdout) != 0 || !written) && write_error_ == 0) write_error_ = errno;
  draw_progress();
}

void Terminal::progress(const std::string& line) {
  if (!is_terminal_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  clear_progress();
  progress_ = line;
  draw_progress();
}

bool Terminal::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  clear_progress();
  progress_.clear();
  if (std::fflush(stdout) != 0 && write_error_ == 0) write_error_ = errno;
  errno = write_error_;
  return tolerant_ || write_error_ == 0;
}

void Terminal::tolerate_write_errors() {
  std::signal(SIGPIPE, SIG_IGN);
  tolerant_ = true;
}

void Terminal::clear_progress() {
  if (progress_.empty()) return;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
}

void Terminal::draw_progress() {
  if (progress_.empty()) return;
  std::fputs(progress_.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace trainctl
