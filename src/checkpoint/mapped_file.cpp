#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainctl {

MappedFile::MappedFile(const fs::path& path) {
  const auto refuse = [&](const char* what, int error) {
    throw checkpoint_error(path.string() + ": cannot " + what +
                           " the file: " + std::strerror(error));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (fd < 0) {
    refuse("open", errno);
  }
  struct stat info {};
  int error = ::fstat(fd, &info) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(info.st_mode)) {
    error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* address = nullptr;
  if (error == 0 && size > 0) {  // an empty mapping is an error of its own
    address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    error = address == MAP_FAILED ? errno : 0;
  }
  ::close(fd);
  if (error != 0) {
    refuse("read", error);
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace trainctl
