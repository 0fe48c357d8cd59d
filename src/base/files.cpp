#include "trainctl/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

[[noreturn]] void fail(ExitCode code, const char* what, const fs::path& path, int error) {
  throw UserError(
      code, std::string("cannot ") + what + " '" + path.string() + "': " + std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool is_name_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

std::string variable_value(const std::string& name, const std::string& path,
                           const fs::path& config_dir) {
  if (name == "CONFIG_DIR") return config_dir.empty() ? "." : config_dir.string();
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) {
    throw usage_error("path '" + path + "' uses $" + name + ", which is not set; export " + name +
                      " or write the path out");
  }
  return value;
}

std::string read_opened(const Descriptor& fd, const fs::path& path, const struct stat& info,
                        ExitCode code) {
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size));
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return content;
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(code, "read", path, errno);
    }
    content.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

std::string read_file(const fs::path& path, ExitCode code) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail(code, "read", path, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode)) fail(code, "read", path, EISDIR);
  return read_opened(fd, path, info, code);
}

std::string read_regular_file(const fs::path& path, ExitCode code) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail(code, "read", path, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) fail(code, "read", path, errno);
  if (!S_ISREG(info.st_mode))
    throw UserError(code, "cannot read '" + path.string() + "': it is not a regular file");
  return read_opened(fd, path, info, code);
}

void fsync_directory(const fs::path& directory, ExitCode code) {
  Descriptor fd(
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) fail(code, "open folder", directory, errno);
  // Some shared file systems cannot sync a folder; the rename itself is still ordered there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail(code, "sync folder", directory, errno);
}

void write_file_atomic(const fs::path& path, std::string_view content, ExitCode code) {
  const fs::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  {
    Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd.get() < 0) fail(code, "write", temporary, errno);
    if (!write_all(fd.get(), content) || ::fsync(fd.get()) != 0 || fd.close() != 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      fail(code, "write", path, error);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(code, "write", path, error);
  }
  fsync_directory(path.parent_path(), code);
}

std::string expand_path(const std::string& path, const fs::path& config_dir) {
  std::string out;
  size_t i = 0;
  if (!path.empty() && path[0] == '~' && (path.size() == 1 || path[1] == '/')) {
    out = variable_value("HOME", path, config_dir);
    i = 1;
  } else if (!path.empty() && path[0] == '~') {
    throw usage_error("path '" + path +
                      "' names another user's home, which is not expanded; write the path out");
  }
  while (i < path.size()) {
    if (path[i] != '$') {
      out += path[i++];
      continue;
    }
    const bool braced = i + 1 < path.size() && path[i + 1] == '{';
    size_t begin = i + (braced ? 2 : 1), end = begin;
    while (end < path.size() && is_name_char(path[end])) ++end;
    if (end == begin || (braced && (end >= path.size() || path[end] != '}'))) {
      throw usage_error("path '" + path +
                        "' has a '$' that starts no variable; write $NAME or ${NAME}");
    }
    out += variable_value(path.substr(begin, end - begin), path, config_dir);
    i = end + (braced ? 1 : 0);
  }
  return out;
}

std::string to_hex(uint64_t value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value));
  return buffer;
}

}  // namespace trainctl
