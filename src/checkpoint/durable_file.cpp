#include "checkpoint/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trainctl {

std::string write_error_cure(int error) {
  switch (error) {
    case ENOSPC:
      return "; free some space, lower checkpoint.keep_latest, or set run.output_dir elsewhere";
    case EDQUOT:
      return "; the quota is used up: free some space or set run.output_dir elsewhere";
    case EFBIG:
      return "; the file size limit of this process or file system is too low: see `ulimit -f`";
    case EIO:
      return "; the device or network file system fails: see the kernel's log (dmesg), or set "
             "run.output_dir elsewhere";
    case EROFS:
      return "; the file system is mounted read-only (often after an error of the device: see the "
             "kernel's log): remount it or set run.output_dir elsewhere";
    case ESTALE:
      return "; the folder was replaced on the network file system while the run wrote to it";
    case EACCES:
    case EPERM:
      return "; make the folder writable or set run.output_dir elsewhere";
    default:
      return "";
  }
}

DurableFile::DurableFile(const fs::path& path, const WriteOptions& options)
    : options_(options),
      path_(path),
      temporary_(options.placement == Placement::kDirect
                     ? path
                     : fs::path(path.string() + ".tmp-" + std::to_string(::getpid()))) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail("create", errno);
  }
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  if (!committed_) {
    ::unlink(temporary_.c_str());
  }
}

void DurableFile::write(std::span<const std::byte> bytes) {
  // In pieces that are still in the processor's cache when the kernel copies them.
  constexpr size_t kPiece = size_t{1} << 20;
  while (!bytes.empty()) {
    if (options_.cancelled != nullptr && *options_.cancelled) fail("finish", ECANCELED);
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    checksum_.update(piece);
    for (size_t done = 0; done < piece.size();) {
      const ssize_t n = ::write(fd_, piece.data() + done, piece.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        fail("write", n == 0 ? EIO : errno);
      }
      done += static_cast<size_t>(n);
    }
    bytes_ += piece.size();
    begin_writeback();
    bytes = bytes.subspan(piece.size());
  }
}

// The disk works while the rest is still being copied to the kernel; what fsync waits for is short.
void DurableFile::begin_writeback() {
  constexpr uint64_t kStretch = uint64_t{32} << 20;
  if (bytes_ - handed_over_ < kStretch) return;
  ::sync_file_range(fd_, static_cast<off64_t>(handed_over_),
                    static_cast<off64_t>(bytes_ - handed_over_), SYNC_FILE_RANGE_WRITE);
  handed_over_ = bytes_;
}

WrittenFile DurableFile::commit() {
  if (::fsync(fd_) != 0) {
    fail("sync", errno);
  }
  // Network file systems report a write that failed late, or a quota, only here.
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) {
    fail("close", errno);
  }
  if (options_.placement == Placement::kDirect) {
    committed_ = true;
    return {bytes_, checksum_.digest()};
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail("rename into place", errno);
  }
  committed_ = true;
  fsync_directory(path_.parent_path(), ExitCode::kCheckpoint);
  return {bytes_, checksum_.digest()};
}

WrittenFile write_text(const fs::path& path, const std::string& text, Placement placement) {
  DurableFile file(path, {placement, nullptr});
  file.write(std::as_bytes(std::span(text)));
  return file.commit();
}

void DurableFile::fail(const char* what, int error) const {
  throw checkpoint_error(path_.string() + ": cannot " + what +
                         " the file: " + std::strerror(error) + write_error_cure(error));
}

}  // namespace trainctl
