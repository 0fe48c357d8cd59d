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

// How many bytes of an earlier run's file come before the first line that is later than
// `resume_step`, torn or not a record. Steps never go back, so nothing after it is wanted. (Cutting
// a file needs no space and cannot leave half of the work done, as writing a new one could.)
off_t bytes_to_keep(const fs::path& path, int64_t resume_step) {
  std::ifstream in(path, std::ios::binary);
  off_t keep = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // eof: no line end
    const std::optional<int64_t> step = step_of_line(line);
    if (!step || *step > resume_step) {
      break;
    }
    keep += static_cast<off_t>(line.size()) + 1;
  }
  return keep;
}

class JsonlSink : public MetricsSink {
 public:
  JsonlSink(fs::path path, int64_t resume_step) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      warn("open");
      return;
    }
    const off_t keep = resume_step > 0 ? bytes_to_keep(path_, resume_step) : 0;
    if (::ftruncate(fd_, keep) != 0 && errno != EINVAL) {  // EINVAL: a pipe or device
      warn("shorten");
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
