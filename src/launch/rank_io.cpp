#include "launch/rank_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "launch/open_files.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

constexpr int kPipeSize = 1 << 20;  // fewer wake-ups; the kernel's limit may say less
constexpr std::streamoff kTailBytes = 16 << 10;

int open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 && means_too_many_open_files(errno))
    throw system_call_error("open '" + path + "'", errno);
  if (fd < 0)
    throw environment_error("cannot write '" + path + "': " + std::strerror(errno) +
                            "; choose another --log-dir");
  return fd;
}

void add_end_of_file(const std::string& path, OutputTail* tail) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return;
  const std::streamoff size = in.tellg();
  in.seekg(size > kTailBytes ? size - kTailBytes : 0);
  std::string line;
  if (size > kTailBytes) std::getline(in, line);  // the rest of a line
  while (std::getline(in, line)) tail->add(line);
}

}  // namespace

RankIo::RankIo(const StreamPlan& out, const StreamPlan& error, const std::string& prefix,
               Console* console) {
  rank_ends_[0] = open_stream(out, Console::Stream::kOut, prefix, console);
  rank_ends_[1] = open_stream(error, Console::Stream::kError, prefix, console);
}

RankIo::~RankIo() { close_rank_ends(); }

int RankIo::open_stream(const StreamPlan& plan, Console::Stream stream, const std::string& prefix,
                        Console* console) {
  if (!plan.file.empty()) files_.push_back(plan.file);
  all_on_screen_ = all_on_screen_ && plan.on_screen && !plan.file_only;
  if (plan.file_only) {
    file_only_.push_back(plan.file);
    return open_file(plan.file);
  }
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw system_call_error("make a pipe for a rank's output", errno);
  ::fcntl(ends[0], F_SETPIPE_SZ, kPipeSize);
  RankOutputTarget target;
  target.console = plan.on_screen ? console : nullptr;
  target.stream = stream;
  target.prefix = prefix;
  target.tail = &tail_;
  outputs_.push_back(nullptr);
  try {
    if (!plan.file.empty()) target.file = open_file(plan.file);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  outputs_.back() = std::make_unique<RankOutput>(ends[0], target);
  return ends[1];
}

void RankIo::give_to(WorkerCommand* command) const {
  command->output = rank_ends_[0];
  command->error = rank_ends_[1];
}

void RankIo::close_rank_ends() {
  for (int& fd : rank_ends_) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

std::vector<std::string> RankIo::last_lines() const {
  if (file_only_.empty()) return tail_.lines();
  OutputTail tail = tail_;
  for (const std::string& path : file_only_) add_end_of_file(path, &tail);
  return tail.lines();
}

}  // namespace trainctl
