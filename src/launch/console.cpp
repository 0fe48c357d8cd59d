#include "launch/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 1 << 16;
// A pipe or terminal that poll(2) calls writable takes one page without waiting (pipe(7)).
constexpr size_t kPage = 4096;
constexpr size_t kWritesInARow = 64;  // between two looks at the ranks
constexpr double kFastReader = 100e6;
constexpr auto kWindow = std::chrono::milliseconds(100);

bool same_file(int a, int b) {
  struct stat x = {}, y = {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino && x.st_rdev == y.st_rdev;
}

bool wants_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
         term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

ConsoleQueue::ConsoleQueue(int fd, size_t capacity)
    : fd_(fd), capacity_(capacity), write_size_(kPage), window_start_(Clock::now()) {
  struct stat info = {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) write_size_ = size_t{1} << 20;
}

void ConsoleQueue::add(std::string_view prefix, std::string_view text, std::string_view end) {
  if (closed_) return;
  const size_t bytes = prefix.size() + text.size() + end.size();
  if (size_ + bytes > capacity_) {
    dropped_lines_ +=
        std::max<size_t>(1, static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
    return;
  }
  add_always(prefix, text, end);
}

void ConsoleQueue::add_always(std::string_view prefix, std::string_view text,
                              std::string_view end) {
  if (closed_) return;
  report_dropped();
  append(prefix);
  append(text);
  append(end);
  ++lines_added_;
}

void ConsoleQueue::report_dropped() {
  if (dropped_lines_ == 0) return;
  append("trainctl: warning: " + std::to_string(dropped_lines_) +
         " lines of the ranks are not shown here: they print faster than this output is read; "
         "--log-dir keeps them all\n");
  dropped_lines_ = 0;
}

void ConsoleQueue::append(std::string_view text) {
  size_ += text.size();
  if (!text.empty()) last_byte_ = text.back();
  while (!text.empty()) {
    if (blocks_.empty() || blocks_.back().size() >= kBlock) {
      blocks_.emplace_back();
      blocks_.back().reserve(kBlock);
    }
    std::string& block = blocks_.back();
    const size_t part = std::min(text.size(), kBlock - block.size());
    block.append(text.substr(0, part));
    text.remove_prefix(part);
  }
}

void ConsoleQueue::write_ready() {
  for (size_t i = 0; i < kWritesInARow && write_some(); ++i) {
  }
}

bool ConsoleQueue::write_some() {
  if (size_ == 0 || closed_) return false;
  pollfd ready = {fd_, POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0 || (ready.revents & (POLLOUT | POLLERR | POLLHUP)) == 0)
    return false;
  const std::string& block = blocks_.front();
  const size_t wanted = std::min(block.size() - head_, write_size_);
  const ssize_t written = ::write(fd_, block.data() + head_, wanted);
  if (written < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    closed_ = errno == EPIPE || errno == EIO;
    if (!closed_) write_error_ = errno;
    // Nothing more can be shown there; a full disk may have room again later.
    blocks_.clear();
    head_ = size_ = 0;
    return false;
  }
  count_written(static_cast<size_t>(written));
  head_ += static_cast<size_t>(written);
  size_ -= static_cast<size_t>(written);
  if (head_ == block.size() && (blocks_.size() > 1 || size_ == 0)) {
    blocks_.pop_front();
    head_ = 0;
  }
  return true;
}

void ConsoleQueue::count_written(size_t bytes) {
  window_bytes_ += bytes;
  const auto elapsed = Clock::now() - window_start_;
  if (elapsed < kWindow) return;
  bytes_per_second_ =
      static_cast<double>(window_bytes_) / std::chrono::duration<double>(elapsed).count();
  window_start_ = Clock::now();
  window_bytes_ = 0;
}

bool ConsoleQueue::wants_pause() const {
  if (closed_ || size_ < capacity_ - capacity_ / 8) return false;
  // Nothing written for a while: the last rate says nothing any more.
  return bytes_per_second_ >= kFastReader && Clock::now() - window_start_ < 2 * kWindow;
}

void ConsoleQueue::finish(std::chrono::milliseconds patience, bool (*hurry)()) {
  report_dropped();
  auto limit = Clock::now() + patience;
  while (size_ > 0 && !closed_) {
    const size_t before = size_;
    write_ready();
    if (size_ < before) {
      limit = Clock::now() + patience;
      continue;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0 || hurry()) return;
    pollfd ready = {fd_, POLLOUT, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 100)));
  }
}

Console::Console(size_t capacity)
    : out_(STDOUT_FILENO, capacity),
      error_(STDERR_FILENO, capacity),
      error_is_out_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      colours_(wants_colours()) {}

void Console::message(LogLevel level, const std::string& text) {
  struct Look {
    const char* name;
    const char* colour;
  };
  constexpr Look kLooks[] = {{"debug", "\x1b[36m"},
                             {"info", "\x1b[32m"},
                             {"warning", "\x1b[33m\x1b[1m"},
                             {"error", "\x1b[31m\x1b[1m"}};
  const Look& look = kLooks[static_cast<size_t>(level)];
  const std::string name = colours_ ? std::string(look.colour) + look.name + "\x1b[m" : look.name;
  ConsoleQueue& shown = queue(Stream::kError);
  shown.add_always((shown.in_a_line() ? "\ntrainctl: " : "trainctl: ") + name + ": ", text, "\n");
}

void Console::add_to(std::vector<pollfd>* fds) const {
  // A reader that is gone would end every wait at once.
  if (!stdout_closed())
    fds->push_back({out_.fd(), static_cast<short>(out_.empty() ? 0 : POLLOUT), 0});
  if (!error_.closed() && !error_.empty()) fds->push_back({error_.fd(), POLLOUT, 0});
}

void Console::report_write_error() {
  if (out_.write_error() == 0 || error_is_out_ || write_error_reported_) return;
  write_error_reported_ = true;
  message(LogLevel::kWarning,
          "standard output cannot be written (" +
              std::generic_category().message(out_.write_error()) +
              "): what the ranks print there is lost; they go on, and --log-dir keeps it");
}

void Console::write_ready() {
  out_.write_ready();
  report_write_error();
  error_.write_ready();
}

bool Console::stdout_closed() const {
  if (out_.closed()) return true;
  pollfd state = {out_.fd(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

void Console::finish(std::chrono::milliseconds patience, bool (*hurry)()) {
  out_.finish(patience, hurry);
  report_write_error();
  error_.finish(patience, hurry);
}

}  // namespace trainctl
