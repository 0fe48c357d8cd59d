#include "doctor/limits_evidence.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "doctor/small_files.h"
#include "launch/cpu_share.h"
#include "launch/visible_devices.h"
#include "trainctl/base/host.h"

namespace trainctl::doctor {
namespace {

int64_t parse_limit(const std::string& text) {
  return text == "unlimited" ? kUnlimited : number_in(text).value_or(kUnlimited);
}

// /proc/self/limits: "Max open files            1024                 1048576              files"
std::map<std::string, Limit> resource_limits(const fs::path& root) {
  std::map<std::string, Limit> limits;
  for (const std::string& line : lines_of(root / "proc/self/limits")) {
    const size_t gap = line.find("  ");
    if (gap == std::string::npos) continue;
    std::istringstream values(line.substr(gap));
    std::string soft, hard;
    values >> soft >> hard;
    limits[line.substr(0, gap)] = {parse_limit(soft), parse_limit(hard)};
  }
  return limits;
}

SharedMemory shared_memory(const fs::path& root) {
  SharedMemory found;
  const std::string path = (root / "dev/shm").string();
  struct statvfs space = {};
  std::error_code error;
  if (!fs::is_directory(path, error) || ::statvfs(path.c_str(), &space) != 0) return found;
  found.there = true;
  found.writable = ::access(path.c_str(), W_OK | X_OK) == 0;
  found.size = static_cast<int64_t>(space.f_blocks * space.f_frsize);
  found.free = static_cast<int64_t>(space.f_bavail * space.f_frsize);
  return found;
}

// The kernel counts threads against the limit, over all processes of the user.
int64_t threads_of_user(const fs::path& root) {
  const int64_t user = ::getuid();
  int64_t threads = 0;
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error), end; !error && entry != end;
       entry.increment(error)) {
    if (std::isdigit(static_cast<unsigned char>(entry->path().filename().string()[0])) == 0)
      continue;
    const auto status = key_values(entry->path() / "status", ':');
    const auto owner = status.find("Uid"), count = status.find("Threads");
    if (owner == status.end() || count == status.end()) continue;
    if (number_in(owner->second) == user) threads += number_in(count->second).value_or(0);
  }
  return threads;
}

// Of the control group with the fewest left, among this process's and its ancestors.
int64_t pids_left(const fs::path& root) {
  int64_t left = kUnlimited;
  for (const char* controller : {"", "pids"}) {
    for (const fs::path& folder : cgroup_folders(root, controller)) {
      const auto max = number_in(first_line_of(folder / "pids.max"));
      const auto used = number_in(first_line_of(folder / "pids.current"));
      if (!max || !used) continue;
      const int64_t here = std::max<int64_t>(0, *max - *used);
      left = left == kUnlimited ? here : std::min(left, here);
    }
  }
  return left;
}

struct MemoryFiles {
  const char* controller;
  const char* limit;
  const char* used;
  const char* reclaimable;  // key in memory.stat of cache that gives way when memory is wanted
};
constexpr MemoryFiles kMemoryFiles[] = {
    {"", "memory.max", "memory.current", "inactive_file"},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};

void read_cgroup_memory(const fs::path& root, Memory* memory) {
  for (const MemoryFiles& files : kMemoryFiles) {
    for (const fs::path& folder : cgroup_folders(root, files.controller)) {
      const auto limit = number_in(first_line_of(folder / files.limit));
      const auto used = number_in(first_line_of(folder / files.used));
      // Version 1 writes a number near 2^63 where there is no limit.
      if (!limit || !used || *limit > int64_t{1} << 60) continue;
      const auto statistics = key_values(folder / "memory.stat", ' ');
      const auto cache = statistics.find(files.reclaimable);
      const int64_t cached = cache == statistics.end() ? 0 : number_in(cache->second).value_or(0);
      const int64_t left = std::max<int64_t>(0, *limit - *used + cached);
      if (memory->cgroup_left != kUnlimited && left >= memory->cgroup_left) continue;
      memory->cgroup_left = left;
      memory->cgroup_limit = *limit;
    }
  }
}

// "always [madvise] never"
std::string chosen_word(const std::string& line) {
  const size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos
             ? ""
             : line.substr(open + 1, close - open - 1);
}

Memory memory_of(const fs::path& root) {
  Memory memory;
  const auto values = key_values(root / "proc/meminfo", ':');
  const auto bytes = [&values](const char* key) -> int64_t {
    const auto found = values.find(key);
    return found == values.end() ? 0 : number_in(found->second).value_or(0) * 1024;
  };
  memory.total = bytes("MemTotal");
  memory.available = bytes("MemAvailable");
  memory.swap_total = bytes("SwapTotal");
  memory.swap_used = memory.swap_total - bytes("SwapFree");
  read_cgroup_memory(root, &memory);
  memory.overcommit = number_in(first_line_of(root / "proc/sys/vm/overcommit_memory")).value_or(0);
  if (memory.overcommit == 2)
    memory.commit_left = std::max<int64_t>(0, bytes("CommitLimit") - bytes("Committed_AS"));
  const OomKills kills = oom_kills(root);
  memory.oom_kills_group = static_cast<int64_t>(kills.control_group);
  memory.oom_kills_machine = static_cast<int64_t>(kills.machine);
  memory.huge_pages =
      chosen_word(first_line_of(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  return memory;
}

void read_throttling(const fs::path& root, Processors* processors) {
  for (const char* controller : {"", "cpu"}) {
    for (const fs::path& folder : cgroup_folders(root, controller)) {
      const auto values = key_values(folder / "cpu.stat", ' ');
      const auto periods = values.find("nr_periods"), throttled = values.find("nr_throttled");
      if (periods == values.end() || throttled == values.end()) continue;
      const int64_t waited = number_in(throttled->second).value_or(0);
      if (waited < processors->throttled) continue;
      processors->throttled = waited;
      processors->periods = number_in(periods->second).value_or(0);
    }
  }
}

Processors processors_of(const fs::path& root) {
  Processors processors;
  const CpuBudget budget = cpu_budget(root);
  const auto online = parse_cpu_list(first_line_of(root / "sys/devices/system/cpu/online"));
  processors.online = std::max<int64_t>(static_cast<int64_t>(online.size()), budget.affinity);
  processors.affinity = budget.affinity;
  processors.cgroup_quota = budget.cgroup_quota.value_or(kUnlimited);
  processors.slurm = budget.slurm.value_or(kUnlimited);
  processors.usable = budget.usable;
  processors.limited_by = budget.limited_by;
  read_throttling(root, &processors);
  return processors;
}

bool has_entries(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  return !error && entries != fs::directory_iterator();
}

}  // namespace

LimitsEvidence gather_limits(const fs::path& root) {
  LimitsEvidence found;
  found.shm = shared_memory(root);
  found.gpus = static_cast<int64_t>(present_gpus(root).size());
  found.rdma = has_entries(root / "sys/class/infiniband");
  auto limits = resource_limits(root);
  found.locked_memory = limits["Max locked memory"];
  found.open_files = limits["Max open files"];
  found.processes = limits["Max processes"];
  found.stack = limits["Max stack size"];
  found.address_space = limits["Max address space"];
  found.file_size = limits["Max file size"];
  found.core = limits["Max core file size"];
  // The limit does not hold for root.
  if (found.processes.soft != kUnlimited && ::geteuid() != 0)
    found.processes_used = threads_of_user(root);
  else
    found.processes = {};
  found.pids_left = pids_left(root);
  found.memory = memory_of(root);
  found.processors = processors_of(root);
  return found;
}

}  // namespace trainctl::doctor
