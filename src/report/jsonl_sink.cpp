#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "trainctl/base/log.h"
#include "trainctl/report/format.h"
#include "trainctl/report/sinks.h"

namespace trainctl {
namespace {

// The step of a whole line; nothing for one that is torn or not ours.
std::optional<int64_t> step_of_line(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
    return std::nullopt;
  }
  return object["step"].get<int64_t>();
}

// What an earlier run's file holds up to `resume_step`.
struct EarlierLines {
  off_t kept_bytes = 0;  // of the unbroken lines at the beginning; the rest can be cut off
  std::string mended;    // all lines to keep, when broken ones stand among them; else empty
  int64_t broken = 0;
};

EarlierLines read_earlier(const fs::path& path, int64_t resume_step) {
  std::ifstream in(path, std::ios::binary);
  EarlierLines earlier;
  std::string kept;
  bool unbroken = true;
  int64_t broken_so_far = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // eof: no line end
    const std::optional<int64_t> step = step_of_line(line);
    if (step && *step > resume_step) break;  // steps never go back
    if (!step) {
      unbroken = false;
      ++broken_so_far;
      continue;
    }
    kept += line + "\n";
    if (unbroken) {
      earlier.kept_bytes = static_cast<off_t>(kept.size());
    } else {
      earlier.broken = broken_so_far;
    }
  }
  if (earlier.broken > 0) earlier.mended = std::move(kept);
  return earlier;
}

// Leaves the lines up to `resume_step`. Cutting a file needs no space and cannot leave half of the
// work done; only a file that was damaged in the middle is written anew, and the damaged one kept.
void shorten_to(const fs::path& path, int64_t resume_step) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;  // none yet, or a pipe or device
  const EarlierLines earlier = resume_step > 0 ? read_earlier(path, resume_step) : EarlierLines{};
  if (earlier.broken == 0) {
    if (::truncate(path.c_str(), earlier.kept_bytes) != 0) {
      log_warning(path.string() + ": cannot shorten the file: " + std::strerror(errno));
    }
    return;
  }
  const fs::path damaged = path.string() + ".damaged";
  fs::rename(path, damaged, error);
  log_warning(path.string() + " had " + std::to_string(earlier.broken) +
              " broken lines; the others are kept, the damaged file is " + damaged.string());
  try {
    write_file_atomic(path, earlier.mended, ExitCode::kTrainingFailed);
  } catch (const UserError& failure) {
    log_warning(failure.what());
  }
}

class JsonlSink : public MetricsSink {
 public:
  JsonlSink(fs::path path, int64_t resume_step) : path_(std::move(path)) {
    shorten_to(path_, resume_step);
    // Without blocking: a FIFO that nobody reads must not hold up the run.
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd_ < 0) {
      warn("open");
      return;
    }
  }

  ~JsonlSink() override {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  JsonlSink(const JsonlSink&) = delete;
  JsonlSink& operator=(const JsonlSink&) = delete;

  void on_step(const StepRecord& record) override { write_line(step_to_json(record)); }
  void on_validation(const ValidationRecord& record) override {
    write_line(validation_to_json(record));
  }
  void on_sample(const SampleRecord& record) override { write_line(sample_to_json(record)); }
  void on_checkpoint(const CheckpointRecord& record) override {
    write_line(checkpoint_to_json(record));
  }
  void on_summary(const SummaryRecord&) override {}  // says nothing that the lines do not

  void flush() override {
    if (fd_ >= 0 && ::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) {
      warn("sync");
    }
  }

 private:
  // Whole lines or nothing: what a failed write left of one is cut off again. Later lines are tried
  // all the same, silently, since disks that were full do not stay so.
  void write_line(std::string line) {
    if (fd_ < 0) {
      return;
    }
    line += '\n';
    const off_t begin = ::lseek(fd_, 0, SEEK_END);
    for (size_t done = 0; done < line.size();) {
      const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        warn("write to");
        if (begin >= 0 && done > 0 && ::ftruncate(fd_, begin) != 0) {
          ::close(fd_);
          fd_ = -1;  // a further line would be glued to the torn one
        }
        return;
      }
      done += static_cast<size_t>(n);
    }
  }

  void warn(const char* what) {
    const int error = errno;
    if (!warned_) {
      log_warning(path_.string() + ": cannot " + what + " the file: " + std::strerror(error) +
                  "; training goes on, metrics are missing from here");
      warned_ = true;
    }
  }

  fs::path path_;
  int fd_ = -1;
  bool warned_ = false;
};

}  // namespace

std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& path, int64_t resume_step) {
  return std::make_unique<JsonlSink>(path, resume_step);
}

}  // namespace trainctl
