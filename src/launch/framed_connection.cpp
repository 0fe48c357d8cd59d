#include "launch/framed_connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace trainctl {
namespace {

// More than the largest frames a launcher gets at once; beyond, it has stopped reading.
constexpr size_t kMostUnsent = 8 * kLargestFrame;

}  // namespace

bool FramedConnection::broken(std::string why) {
  problem_ = std::move(why);
  return false;
}

void FramedConnection::send(const Message& message) {
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  }
  unsent_ += encode(message);
}

bool FramedConnection::flush() {
  while (has_unsent()) {
    const ssize_t count =
        ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (count > 0) {
      sent_ += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return unsent_.size() - sent_ <= kMostUnsent || broken("it no longer reads what it is told");
    } else if (errno != EINTR) {
      return broken(errno == ECONNRESET || errno == EPIPE ? kClosed : error_text(errno));
    }
  }
  return true;
}

bool FramedConnection::receive() {
  std::array<char, size_t{64} << 10> bytes;
  const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  if (count > 0) {
    reader_.feed({bytes.data(), static_cast<size_t>(count)});
    return true;
  }
  // Who ends with something unread is seen as a reset.
  if (count == 0 || errno == ECONNRESET) return broken(kClosed);
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || broken(error_text(errno));
}

void FramedConnection::finish_sending() { ::shutdown(fd_.get(), SHUT_WR); }

std::optional<Message> FramedConnection::next() {
  const auto content = reader_.next();
  if (!content) return std::nullopt;
  return decode(*content);
}

}  // namespace trainctl
