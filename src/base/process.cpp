#include "trainctl/base/process.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace trainctl {
namespace {

constexpr size_t kFirstField = 3;
constexpr size_t kStartTime = 22;

std::string start_time_of(pid_t pid) {
  const auto stat = read_process_stat(pid);
  return stat ? stat->field(kStartTime) : "";
}

}  // namespace

std::string ProcessStat::field(size_t number) const {
  return number >= kFirstField && number - kFirstField < fields.size()
             ? fields[number - kFirstField]
             : "";
}

long long ProcessStat::number(size_t field_number) const {
  return std::strtoll(field(field_number).c_str(), nullptr, 10);
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  for (std::string word; rest >> word;) stat.fields.push_back(word);
  if (stat.fields.empty()) return std::nullopt;
  return stat;
}

ProcessIdentity ProcessIdentity::self() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, sizeof host - 1);
  return {host, ::getpid(), start_time_of(::getpid())};
}

ProcessIdentity ProcessIdentity::parse(const std::string& text) {
  int pid = 0;
  char start[32] = {}, host[256] = {};
  if (std::sscanf(text.c_str(), "process %d (started %31[0-9]) on %255s", &pid, start, host) != 3)
    return {};
  return {host, pid, start};
}

std::string ProcessIdentity::to_string() const {
  return "process " + std::to_string(pid) + " (started " + start_time + ") on " + host + "\n";
}

bool ProcessIdentity::is_alive() const {
  return pid > 0 && !start_time.empty() && start_time_of(pid) == start_time;
}

}  // namespace trainctl
