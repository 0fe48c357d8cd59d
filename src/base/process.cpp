#include "trainctl/base/process.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace trainctl {
namespace {

// Field 22 of /proc/<pid>/stat, counted after the command name, which may hold blanks and brackets.
std::string start_time_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  size_t at = text.rfind(')');
  if (at == std::string::npos) return "";
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return "";
  }
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

}  // namespace

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
