#include "launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadSize = size_t{256} << 10;
constexpr auto kProgressInterval = std::chrono::seconds(1);

}  // namespace

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  if (after_return_ && !bytes.empty()) {
    after_return_ = false;
    const bool is_newline = bytes[0] == '\n';
    take("", is_newline ? End::kNewline : End::kProgress, on_line);
    if (is_newline) bytes.remove_prefix(1);
  }
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    std::string_view line = bytes.substr(0, newline);
    const size_t back = line.find('\r');
    if (back != std::string_view::npos) {
      if (back + 1 == bytes.size()) {  // "\r" or "\r\n"? the next read says
        keep(line.substr(0, back), on_line);
        after_return_ = true;
        return;
      }
      const bool is_newline = back + 1 == line.size();  // "\r\n"
      take(line.substr(0, back), is_newline ? End::kNewline : End::kProgress, on_line);
      bytes.remove_prefix(back + (is_newline ? 2 : 1));
      continue;
    }
    if (newline == std::string_view::npos) {
      keep(line, on_line);
      return;
    }
    take(line, End::kNewline, on_line);
    bytes.remove_prefix(newline + 1);
  }
}

void LineSplitter::keep(std::string_view piece, const OnLine& on_line) {
  while (partial_.size() + piece.size() > longest_) {
    const size_t part = longest_ - partial_.size();
    partial_.append(piece.substr(0, part));
    piece.remove_prefix(part);
    on_line(partial_, End::kCut);
    partial_.clear();
  }
  partial_.append(piece);
}

void LineSplitter::take(std::string_view piece, End end, const OnLine& on_line) {
  if (partial_.empty() && piece.size() <= longest_) return on_line(piece, end);
  keep(piece, on_line);
  on_line(partial_, end);
  partial_.clear();
}

void LineSplitter::finish(const OnLine& on_line) {
  after_return_ = false;
  if (!partial_.empty()) take("", End::kStream, on_line);
}

void OutputTail::add(std::string_view line) {
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  const bool full = lines_.size() == kLines;
  if (!full) lines_.emplace_back();
  std::string& kept = full ? lines_[oldest_] : lines_.back();
  if (full) oldest_ = (oldest_ + 1) % kLines;
  size_t cut = std::min(line.size(), kLongest);
  while (cut > 0 && cut < line.size() && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80)
    --cut;
  kept.assign(line.substr(0, cut));
  if (cut < line.size()) kept += "…";
}

std::vector<std::string> OutputTail::lines() const {
  std::vector<std::string> ordered(lines_.begin() + static_cast<std::ptrdiff_t>(oldest_),
                                   lines_.end());
  ordered.insert(ordered.end(), lines_.begin(),
                 lines_.begin() + static_cast<std::ptrdiff_t>(oldest_));
  return ordered;
}

RankOutput::RankOutput(int pipe, RankOutputTarget target)
    : pipe_(pipe), target_(std::move(target)), buffer_(kReadSize) {
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

RankOutput::~RankOutput() {
  if (pipe_ >= 0) ::close(pipe_);
  if (target_.file >= 0) ::close(target_.file);
}

bool RankOutput::read_some() {
  if (pipe_ < 0) return false;
  const ssize_t got = ::read(pipe_, buffer_.data(), buffer_.size());
  if (got > 0) {
    consume({buffer_.data(), static_cast<size_t>(got)});
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) end_stream();
  return false;
}

void RankOutput::drain_and_close() {
  while (read_some()) {
  }
  if (pipe_ >= 0) end_stream();
}

bool RankOutput::paused() const {
  return target_.console != nullptr && target_.console->queue(target_.stream).wants_pause();
}

void RankOutput::consume(std::string_view bytes) {
  write_file(bytes);
  if (target_.prefix.empty() && target_.console != nullptr)
    target_.console->queue(target_.stream).add("", bytes, "");
  splitter_.feed(bytes,
                 [this](std::string_view line, LineSplitter::End end) { on_line(line, end); });
  if (target_.prefix.empty() && target_.console != nullptr)
    last_shown_at_ = target_.console->queue(target_.stream).lines_added();
}

void RankOutput::on_line(std::string_view line, LineSplitter::End end) {
  if (end == LineSplitter::End::kProgress) {
    if (line.empty()) return;
    // A bar that redraws itself many times a second would flood a screen that several ranks share.
    const auto now = Clock::now();
    if (now - last_progress_ < kProgressInterval) {
      waiting_progress_ = line;
      return;
    }
    last_progress_ = now;
  }
  waiting_progress_.clear();
  if (target_.tail != nullptr) target_.tail->add(line);
  show(line);
}

void RankOutput::show(std::string_view line) {
  if (target_.console == nullptr || target_.prefix.empty()) return;
  ConsoleQueue& queue = target_.console->queue(target_.stream);
  queue.add(target_.prefix, line, "\n");
  last_shown_at_ = queue.lines_added();
}

void RankOutput::write_file(std::string_view bytes) {
  while (target_.file >= 0 && !bytes.empty()) {
    const ssize_t written = ::write(target_.file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      log_warning(std::string("a rank's log file cannot be written any more: ") +
                  std::strerror(errno) + "; the ranks go on without it");
      ::close(target_.file);
      target_.file = -1;
    }
  }
}

void RankOutput::end_stream() {
  ::close(pipe_);
  pipe_ = -1;
  splitter_.finish([this](std::string_view line, LineSplitter::End end) { on_line(line, end); });
  if (!waiting_progress_.empty()) {
    if (target_.tail != nullptr) target_.tail->add(waiting_progress_);
    show(waiting_progress_);
  }
  if (target_.file >= 0) ::close(target_.file);
  target_.file = -1;
}

}  // namespace trainctl
