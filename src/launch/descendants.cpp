#include "launch/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

namespace trainctl {
namespace {

struct Stat {
  RunningProcess process;
  pid_t parent = 0;
};

std::string whole_file(const std::string& path) {
  std::ifstream in(path);
  std::string content((std::istreambuf_iterator<char>(in)), {});
  return content;
}

// "123 (name, maybe with ) inside) S 1 …"
std::optional<Stat> read_stat(pid_t pid) {
  const std::string text = whole_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > text.size())
    return std::nullopt;
  Stat stat;
  stat.process = {pid, text.substr(open + 1, close - open - 1), text[close + 2]};
  stat.parent = static_cast<pid_t>(std::strtol(text.c_str() + close + 4, nullptr, 10));
  return stat;
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
    const auto stat = read_stat(pid);
    if (stat && stat->parent == parent) children.push_back(pid);
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
    const auto stat = read_stat(open[i]);
    if (!stat) continue;
    found.push_back(stat->process);
    const std::vector<pid_t> below = children_of(open[i]);
    open.insert(open.end(), below.begin(), below.end());
  }
  return found;
}

void set_process_title(const std::string& title) {
  ::prctl(PR_SET_NAME, title.c_str());
  // Fields 48 and 49 of stat, counted after the name: where the command line stands in memory.
  const std::string text = whole_file("/proc/self/stat");
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  unsigned long start = 0, end = 0;
  for (int number = 3; number <= 49 && fields >> field; ++number) {
    if (number == 48) start = std::strtoul(field.c_str(), nullptr, 10);
    if (number == 49) end = std::strtoul(field.c_str(), nullptr, 10);
  }
  if (start == 0 || end <= start + 1) return;
  char* words = reinterpret_cast<char*>(start);  // NOLINT(performance-no-int-to-ptr)
  std::memset(words, 0, end - start);
  // The byte after it is one of the zeros.
  // NOLINTNEXTLINE(bugprone-not-null-terminated-result)
  std::memcpy(words, title.data(), std::min<size_t>(title.size(), end - start - 1));
}

}  // namespace trainctl
