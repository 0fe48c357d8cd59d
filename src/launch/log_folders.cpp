#include "launch/log_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

std::string as_file_name(std::string id) {
  for (char& c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
      c = '_';
  }
  return id == "." || id == ".." ? "_" : id;
}

constexpr std::string_view kScratch = "trainctl_launch_";  // removed at the end
constexpr std::string_view kKept = "trainctl_logs_";
constexpr auto kYoung = std::chrono::minutes(1);  // its launcher may not have locked it yet

fs::path temporary_place() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

// A launcher holds a lock on its folder as long as it lives.
int lock_folder(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

// What launchers of this user left that were killed together with their guards.
void remove_stale(const fs::path& place) {
  std::error_code error;
  for (fs::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info = {};
    if (!entry->path().filename().string().starts_with(kScratch) ||
        ::lstat(entry->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != ::geteuid())
      continue;
    const auto changed = std::chrono::system_clock::from_time_t(info.st_mtime);
    if (std::chrono::system_clock::now() - changed < kYoung) continue;
    const int lock = lock_folder(entry->path());
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
    ::close(lock);
  }
}

fs::path make_temporary(std::string_view prefix) {
  std::string path = temporary_place() / (std::string(prefix) + "XXXXXX");
  if (::mkdtemp(path.data()) == nullptr)
    throw environment_error("cannot make a folder like '" + path + "': " + std::strerror(errno) +
                            "; set TMPDIR to a folder that can be written");
  return path;
}

[[noreturn]] void cannot_make(const fs::path& path, const std::string& why) {
  throw environment_error("cannot make the log folder '" + path.string() + "': " + why +
                          "; choose another --log-dir");
}

// A launch of the same name before this one keeps its files.
fs::path make_new(const fs::path& wanted) {
  std::error_code error;
  fs::create_directories(wanted.parent_path(), error);
  if (error) cannot_make(wanted.parent_path(), error.message());
  fs::path path = wanted;
  for (int next = 2; ::mkdir(path.c_str(), 0777) != 0; ++next) {
    if (errno != EEXIST) cannot_make(path, std::strerror(errno));
    path = wanted.string() + "_" + std::to_string(next);
  }
  return path;
}

}  // namespace

LogFolders::LogFolders(const LaunchOptions& options, const NodeAssignment& node) {
  if (options.log_dir.empty()) {
    is_temporary_ = !options.redirects.any() && !options.tee.any();
    try {
      remove_stale(temporary_place());
      run_folder_ = make_temporary(is_temporary_ ? kScratch : kKept);
      if (is_temporary_) lock_ = lock_folder(run_folder_);
    } catch (const UserError&) {
      if (!is_temporary_) throw;  // else the ranks do without error files
    }
    return;
  }
  std::string name = as_file_name(node.run_id);
  if (node.node_count > 1) name += "_node" + std::to_string(node.node_rank);
  std::error_code error;
  // Ranks may change their working directory.
  const fs::path folder = fs::absolute(options.log_dir, error);
  run_folder_ = make_new(folder / name);
}

LogFolders::~LogFolders() {
  std::error_code error;
  if (is_temporary_ && !run_folder_.empty()) fs::remove_all(run_folder_, error);
  if (lock_ >= 0) ::close(lock_);
}

fs::path LogFolders::rank_folder(int64_t attempt, int64_t local_rank) const {
  if (run_folder_.empty()) return {};
  fs::path folder =
      run_folder_ / ("attempt_" + std::to_string(attempt)) / std::to_string(local_rank);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot_make(folder, error.message());
  return folder;
}

}  // namespace trainctl
