#include "doctor/storage_evidence.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/quota.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

#include "doctor/small_files.h"

namespace trainctl::doctor {
namespace {

using Clock = std::chrono::steady_clock;

std::string system_word(int error) { return std::generic_category().message(error); }

// Mount points are written with \040 for a space.
std::string without_octal(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_below(const std::string& path, const std::string& folder) {
  if (folder == "/" || path == folder) return true;
  return path.starts_with(folder) && path[folder.size()] == '/';
}

// The folder itself or the nearest above it that is there; a file in its place ends the search.
fs::path nearest_existing(const fs::path& path) {
  fs::path at = path;
  std::error_code error;
  while (!at.empty() && at != at.root_path() &&
         fs::symlink_status(at, error).type() == fs::file_type::not_found) {
    at = at.parent_path();
  }
  return at;
}

void read_space(Folder* folder) {
  struct statvfs space = {};
  if (::statvfs(folder->nearest.c_str(), &space) != 0) {
    folder->problem = system_word(errno);
    return;
  }
  folder->read_only = (space.f_flag & ST_RDONLY) != 0;
  folder->total = static_cast<int64_t>(space.f_blocks * space.f_frsize);
  folder->free = static_cast<int64_t>(space.f_bavail * space.f_frsize);
  folder->files_total = static_cast<int64_t>(space.f_files);
  folder->files_free = static_cast<int64_t>(space.f_favail);
}

// Answered by local file systems only: on NFS the server keeps the account.
void read_quota(Folder* folder) {
  if (!folder->mount_source.starts_with('/')) return;
  for (const int type : {USRQUOTA, GRPQUOTA}) {
    struct dqblk quota = {};
    const int id = static_cast<int>(type == USRQUOTA ? ::getuid() : ::getgid());
    if (::quotactl(QCMD(Q_GETQUOTA, type), folder->mount_source.c_str(), id,
                   reinterpret_cast<caddr_t>(&quota)) != 0) {
      continue;
    }
    const uint64_t blocks = quota.dqb_bhardlimit != 0 ? quota.dqb_bhardlimit : quota.dqb_bsoftlimit;
    if (blocks == 0) continue;
    const auto limit = static_cast<int64_t>(blocks * 1024);
    const int64_t left = std::max<int64_t>(0, limit - static_cast<int64_t>(quota.dqb_curspace));
    if (folder->quota_left >= 0 && left >= folder->quota_left) continue;
    folder->quota_left = left;
    folder->quota_limit = limit;
  }
}

Folder look_at(const fs::path& path, const fs::path& root) {
  Folder folder;
  folder.path = path.string();
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  const fs::path nearest = nearest_existing(absolute);
  folder.nearest = nearest.string();
  folder.exists = nearest == absolute || nearest / "" == absolute;
  const fs::path real = fs::canonical(nearest, error);
  if (error) {
    folder.problem = error.message();
    return folder;
  }
  if (!fs::is_directory(real, error)) {
    folder.problem = "'" + folder.nearest + "' is no folder";
    return folder;
  }
  const Mount mount = mount_of(real, lines_of(root / "proc/self/mountinfo"));
  folder.file_system = mount.file_system;
  folder.mount_point = mount.point;
  folder.mount_source = mount.source;
  read_space(&folder);
  if (folder.problem.empty() && ::access(real.c_str(), W_OK | X_OK) != 0)
    folder.problem = system_word(errno);
  read_quota(&folder);
  return folder;
}

// A file without a name where the file system can make one, so that nothing is left behind even
// when this process is killed.
int nameless_file(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.trainctl-doctor-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

// At most half a second and 64 MiB, each piece forced to the disk.
WriteTrial try_writing(const std::string& folder) {
  constexpr int64_t kMost = 64 << 20;
  constexpr std::chrono::milliseconds kLongest{500};
  WriteTrial trial;
  ::signal(SIGXFSZ, SIG_IGN);  // beyond ulimit -f: an error is wanted, not the end
  const int fd = nameless_file(folder);
  if (fd < 0) {
    trial.problem = system_word(errno);
    return trial;
  }
  // Not zeros, which some file systems do not store.
  std::vector<char> piece(1 << 20);
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 2654435761U >> 13);
  const Clock::time_point begin = Clock::now();
  while (trial.bytes < kMost && Clock::now() - begin < kLongest) {
    const ssize_t wrote = ::write(fd, piece.data(), piece.size());
    if (wrote < 0 || ::fdatasync(fd) != 0) {
      trial.problem = system_word(errno);
      break;
    }
    trial.bytes += wrote;
  }
  trial.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  ::close(fd);
  return trial;
}

}  // namespace

// "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw": the optional fields end at
// the hyphen. Of mounts over each other the last one counts.
Mount mount_of(const fs::path& path, const std::vector<std::string>& mountinfo) {
  Mount found;
  for (const std::string& line : mountinfo) {
    std::istringstream words(line);
    std::string number, parent, device, inner, point, word;
    words >> number >> parent >> device >> inner >> point;
    while (words >> word && word != "-") {
    }
    Mount mount;
    words >> mount.file_system >> mount.source;
    mount.point = without_octal(point);
    if (mount.file_system.empty() || mount.point.size() < found.point.size()) continue;
    if (lies_below(path.string(), mount.point)) found = mount;
  }
  return found;
}

StorageEvidence gather_storage(const DoctorOptions& options) {
  StorageEvidence found;
  found.output = look_at(options.output_dir, options.root);
  if (!options.quick && found.output.problem.empty())
    found.trial = try_writing(found.output.nearest);
  const char* named = std::getenv("TMPDIR");
  found.temporary_named = named != nullptr && *named != '\0';
  found.temporary = look_at(found.temporary_named ? named : "/tmp", options.root);
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  found.job_nodes = number_in(nodes == nullptr ? "" : nodes).value_or(1);
  return found;
}

}  // namespace trainctl::doctor
