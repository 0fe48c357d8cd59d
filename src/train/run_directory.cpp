#include "trainctl/train/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "trainctl/base/log.h"
#include "trainctl/base/process.h"

namespace trainctl {
namespace {

// Note [Run lock]: output folders may lie on shared file systems, where flock cannot be relied on.
// The lock is a file made with O_EXCL that names host and process. On the same host a dead owner is
// told by its process number and start time; on another, by a file that its owner has not touched
// for kStaleAfter.
constexpr std::chrono::seconds kHeartbeat{10};
constexpr std::chrono::seconds kStaleAfter{120};

std::string describe_owner(const std::string& content) {
  if (ProcessIdentity::parse(content).pid == 0) return "a process that its lock file does not name";
  return content.substr(0, content.find('\n'));
}

bool try_create(const fs::path& path, const std::string& content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    if (errno == EEXIST) return false;
    throw usage_error("cannot write in the run's folder '" + path.parent_path().string() +
                      "': " + std::strerror(errno) +
                      "; set run.output_dir to a folder that can be written");
  }
  const ssize_t written = ::write(fd, content.data(), content.size());
  const int error = errno;
  ::close(fd);
  if (written != static_cast<ssize_t>(content.size())) {
    ::unlink(path.c_str());
    throw usage_error("cannot write in the run's folder '" + path.parent_path().string() +
                      "': " + std::strerror(written < 0 ? error : ENOSPC) +
                      "; free some space or set run.output_dir elsewhere");
  }
  return true;
}

bool owner_is_gone(const fs::path& lock, const std::string& content) {
  const ProcessIdentity owner = ProcessIdentity::parse(content);
  if (owner.host == ProcessIdentity::self().host && owner.pid > 0) return !owner.is_alive();
  struct stat info = {};
  if (::stat(lock.c_str(), &info) != 0) return true;
  return std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(info.st_mtime) >
         kStaleAfter;
}

void create_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);  // no race: an existing folder is not an error
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return;
  for (fs::path part = path; !part.empty() && part != part.parent_path();
       part = part.parent_path()) {
    std::error_code ignored;
    if (fs::exists(part, ignored) && !fs::is_directory(part, ignored)) {
      throw usage_error("run folder '" + path.string() + "' cannot be made: '" + part.string() +
                        "' is a file; choose another run.output_dir or run.name, or move the file");
    }
  }
  throw usage_error("run folder '" + path.string() + "' cannot be made: " + error.message() +
                    "; set run.output_dir to a folder that can be written");
}

// The outermost folder of `path` that is not there yet; empty when all are.
fs::path first_missing(const fs::path& path) {
  std::error_code error;
  fs::path missing;
  for (fs::path part = path; !part.empty() && !fs::exists(part, error); part = part.parent_path()) {
    missing = part;
  }
  return missing;
}

// Names of new folders are lost in a power cut until the folders that hold them are synced, and
// with them every checkpoint inside, synced or not.
void sync_names(const fs::path& run, const fs::path& outermost_new) {
  fsync_directory(run, ExitCode::kUsage);
  if (outermost_new.empty()) return;
  for (fs::path part = run; !part.empty(); part = part.parent_path()) {
    fsync_directory(part.parent_path(), ExitCode::kUsage);
    if (part == outermost_new) return;
  }
}

}  // namespace

fs::path move_aside(const fs::path& path) {
  std::error_code error;
  for (int n = 1;; ++n) {
    const fs::path aside = path.string() + ".old-" + std::to_string(n);
    if (fs::exists(aside, error)) continue;
    fs::rename(path, aside, error);
    if (error) {
      throw usage_error("cannot move '" + path.string() + "' aside to '" + aside.string() +
                        "': " + error.message());
    }
    return aside;
  }
}

class RunDirectory::Lock {
 public:
  explicit Lock(fs::path path)
      : path_(std::move(path)), content_(ProcessIdentity::self().to_string()) {
    while (!try_create(path_, content_)) take_from_dead_owner();
    try {
      heartbeat_ = std::thread([this] { beat(); });
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }

  ~Lock() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    heartbeat_.join();
    ::unlink(path_.c_str());
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  // Returns with the lock file gone, by us or by its owner; throws usage_error when it is held.
  void take_from_dead_owner() {
    std::error_code error;
    if (fs::exists(path_, error) && !fs::is_regular_file(path_, error)) {
      throw usage_error("'" + path_.string() + "' is no lock file of a run; move it away");
    }
    std::string owner;
    try {
      owner = read_regular_file(path_, ExitCode::kUsage);
    } catch (const UserError&) {
      if (!fs::exists(path_, error)) return;  // released in between
      throw;
    }
    if (!owner_is_gone(path_, owner)) {
      throw usage_error(
          "run folder '" + path_.parent_path().string() + "' is in use by " +
          describe_owner(owner) +
          "; wait for it, stop it, or choose another run.name. If no such run exists, delete " +
          path_.string());
    }
    // Another run may be taking it over just now: what was moved must be what was read.
    const fs::path aside = path_.string() + ".stale-" + std::to_string(::getpid());
    if (::rename(path_.c_str(), aside.c_str()) != 0) return;
    if (read_regular_file(aside, ExitCode::kUsage) == owner) {
      log_warning("taking over the run folder of a run that ended without releasing it (" +
                  describe_owner(owner) + ")");
    } else if (::link(aside.c_str(), path_.c_str()) != 0) {
      log_warning("cannot put back " + path_.string());
    }
    ::unlink(aside.c_str());
  }

  void beat() {
    std::unique_lock guard(mutex_);
    while (!wake_.wait_for(guard, kHeartbeat, [this] { return stopping_; })) {
      const bool gone = ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) != 0 && errno == ENOENT;
      if (gone && !warned_) {
        log_warning("the run's folder '" + path_.parent_path().string() +
                    "' or its lock file was removed while the run writes there; what it saves from "
                    "here on may be lost");
      }
      warned_ = gone;
    }
  }

  fs::path path_;
  std::string content_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false, warned_ = false;
  std::thread heartbeat_;
};

RunDirectory::RunDirectory(const std::string& output_dir, const std::string& name, bool start_fresh)
    : path_(fs::path(output_dir) / name) {
  made_ = first_missing(path_);
  create_folder(path_);
  lock_ = std::make_unique<Lock>(path_ / ".lock");
  if (start_fresh && made_.empty()) {
    lock_.reset();
    if (!fs::is_empty(path_))
      log_info("moved the earlier run aside to " + move_aside(path_).string());
    made_ = path_;
    create_folder(path_);
    lock_ = std::make_unique<Lock>(path_ / ".lock");
  }
  create_folder(checkpoints());
  create_folder(logs());
  sync_names(path_, made_);
}

std::shared_ptr<void> RunDirectory::lock(const fs::path& run_dir) {
  return std::make_shared<Lock>(run_dir / ".lock");
}

fs::path RunDirectory::path_of(const Config& config) {
  return fs::path(config.run.output_dir) / config.run.name;
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  if (made_.empty() || fs::exists(resolved_config(), ignored)) return;
  // Refused before it began: nothing of it is left.
  lock_.reset();
  fs::remove_all(path_, ignored);
  for (fs::path part = path_; part != made_;) {
    part = part.parent_path();
    if (!fs::remove(part, ignored)) break;
  }
}

}  // namespace trainctl
