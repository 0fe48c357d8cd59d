#include "launch/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "trainctl/base/process.h"

namespace trainctl {
namespace {

// Fields of /proc/<pid>/stat.
constexpr size_t kState = 3;
constexpr size_t kParent = 4;
constexpr size_t kCommandLineStart = 48;  // addresses in the process's own memory
constexpr size_t kCommandLineEnd = 49;

std::string whole_file(const std::string& path) {
  std::ifstream in(path);
  std::string content((std::istreambuf_iterator<char>(in)), {});
  return content;
}

std::vector<pid_t> numbered_entries(const std::string& folder) {
  std::vector<pid_t> numbers;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return numbers;
  while (const dirent* entry = ::readdir(directory)) {
    pid_t number = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, error] = std::from_chars(entry->d_name, end, number);
    if (error == std::errc() && stop == end) numbers.push_back(number);
  }
  ::closedir(directory);
  return numbers;
}

// Kernels built without CONFIG_PROC_CHILDREN: ask every process for its parent.
std::vector<pid_t> children_by_scan(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t pid : numbered_entries("/proc")) {
    const auto stat = read_process_stat(pid);
    if (stat && stat->number(kParent) == parent) children.push_back(pid);
  }
  return children;
}

}  // namespace

std::vector<pid_t> children_of(pid_t parent) {
  static const bool has_list = std::ifstream("/proc/thread-self/children").good();
  if (!has_list) return children_by_scan(parent);
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  for (const pid_t task : numbered_entries(tasks)) {
    std::istringstream list(whole_file(tasks + "/" + std::to_string(task) + "/children"));
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

std::vector<RunningProcess> descendants_of(pid_t ancestor) {
  std::vector<RunningProcess> found;
  std::vector<pid_t> open = children_of(ancestor);
  // Grows while it is walked.
  for (size_t i = 0; i < open.size(); ++i) {
    const auto stat = read_process_stat(open[i]);
    if (!stat) continue;
    found.push_back({open[i], stat->name, stat->field(kState)[0]});
    const std::vector<pid_t> below = children_of(open[i]);
    open.insert(open.end(), below.begin(), below.end());
  }
  return found;
}

void set_process_title(const std::string& title) {
  ::prctl(PR_SET_NAME, title.c_str());
  const auto stat = read_process_stat(::getpid());
  if (!stat) return;
  const auto start = static_cast<size_t>(stat->number(kCommandLineStart));
  const auto end = static_cast<size_t>(stat->number(kCommandLineEnd));
  if (start == 0 || end <= start + 1) return;
  char* words = reinterpret_cast<char*>(start);  // NOLINT(performance-no-int-to-ptr)
  std::memset(words, 0, end - start);
  // The byte after it is one of the zeros.
  // NOLINTNEXTLINE(bugprone-not-null-terminated-result)
  std::memcpy(words, title.data(), std::min<size_t>(title.size(), end - start - 1));
}

}  // namespace trainctl
