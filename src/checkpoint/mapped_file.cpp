#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace trainctl {
namespace {

[[noreturn]] void refuse(const fs::path& path, const char* what, int error) {
  throw checkpoint_error(path.string() + ": cannot " + what + " the file: " + std::strerror(error));
}

// Note [Stale handles]: on NFS a name may still lead to a file that another host has replaced. The
// client finds out at the first use, with ESTALE, and looks the name up anew at the next.
constexpr int kTries = 4;

template <class Call>
auto retry_stale(const Call& call) {
  auto result = call();
  for (int i = 1; i < kTries && result < 0 && errno == ESTALE; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * i));
    result = call();
  }
  return result;
}

// A regular file, opened for reading.
class Opened {
 public:
  explicit Opened(const fs::path& path) : path_(path) {
    // A FIFO must not block.
    fd_ = retry_stale([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
    if (fd_ < 0) refuse(path, "open", errno);
    struct stat info {};
    int error = ::fstat(fd_, &info) != 0 ? errno : 0;
    if (error == 0 && !S_ISREG(info.st_mode)) error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    if (error != 0) {
      ::close(fd_);
      refuse(path, "read", error);
    }
    size_ = static_cast<size_t>(info.st_size);
  }
  ~Opened() { ::close(fd_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  int fd() const { return fd_; }
  size_t size() const { return size_; }

  // Up to buffer.size() bytes; 0 at the end.
  size_t read(std::span<std::byte> buffer) const {
    for (;;) {
      const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) refuse(path_, "read", errno);
    }
  }

 private:
  const fs::path& path_;
  int fd_ = -1;
  size_t size_ = 0;
};

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Opened file(path);
  if (file.size() == 0) return;  // an empty mapping is an error of its own
  void* address = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) refuse(path, "read", errno);
  bytes_ = {static_cast<const std::byte*>(address), file.size()};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

FileDigest digest_file(const fs::path& path, bool read) {
  const Opened file(path);
  FileDigest digest;
  digest.bytes = file.size();
  if (!read) return digest;
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  constexpr size_t kPiece = size_t{1} << 20;  // still in the processor's cache when it is summed
  std::vector<std::byte> buffer(std::min(kPiece, file.size() + 1));
  Checksum checksum;
  digest.bytes = 0;
  for (size_t got = 0; (got = file.read(buffer)) > 0;) {
    checksum.update(std::span(buffer).first(got));
    digest.bytes += got;
  }
  digest.xxh3 = checksum.digest();
  return digest;
}

std::string read_small_file(const fs::path& path) {
  const Opened file(path);
  std::string text;
  std::byte buffer[16384];
  for (size_t got = 0; (got = file.read(buffer)) > 0;) {
    text.append(reinterpret_cast<const char*>(buffer), got);
  }
  return text;
}

}  // namespace trainctl
