#include "trainctl/base/host.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

namespace trainctl {
namespace {

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) {
    return std::nullopt;
  }
  return line;
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

int64_t affinity_count() {
  // The fixed cpu_set_t holds 1,024 processors; larger machines need a larger set.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool ok = set != nullptr && sched_getaffinity(0, size, set) == 0;
    const int count = ok ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (ok) {
      return std::max(1, count);
    }
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
  std::optional<double> smallest;
  const auto consider = [&smallest](std::optional<int64_t> quota, std::optional<int64_t> period) {
    if (quota && period && *quota > 0 && *period > 0) {
      const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
      smallest = smallest ? std::min(*smallest, cpus) : cpus;
    }
  };
  for (const fs::path& folder : cgroup_folders(root, "")) {
    std::istringstream line(first_line(folder / "cpu.max").value_or(""));
    std::string quota, period;  // "max 100000" or "150000 100000"
    line >> quota >> period;
    consider(parse_int(quota), parse_int(period));
  }
  for (const fs::path& folder : cgroup_folders(root, "cpu")) {
    consider(parse_int(first_line(folder / "cpu.cfs_quota_us").value_or("")),
             parse_int(first_line(folder / "cpu.cfs_period_us").value_or("")));
  }
  return smallest;
}

// The number after `key` in a "Key:  123 kB" file, in bytes.
uint64_t kilobytes_field(const fs::path& path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) == 0) {
      return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
    }
  }
  return 0;
}

// Of a file of "name number" lines; 0 when it is not there.
int64_t counter_in(const fs::path& path, std::string_view name) {
  std::ifstream in(path);
  std::string key;
  for (int64_t value = 0; in >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

}  // namespace

std::vector<fs::path> cgroup_folders(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  std::vector<fs::path> folders;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool matches =
        controller.empty() ? names.empty()
                           : ("," + names + ",").find("," + controller + ",") != std::string::npos;
    if (!matches) {
      continue;
    }
    std::vector<fs::path> mounts;
    if (controller.empty()) {
      mounts = {root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"};
    } else {
      mounts = {root / "sys/fs/cgroup" / controller, root / "sys/fs/cgroup" / names};
    }
    for (const fs::path& mount : mounts) {
      std::error_code error;
      if (!fs::is_directory(mount, error)) {
        continue;
      }
      for (fs::path inner = fs::path(line.substr(second + 1)).relative_path(); !inner.empty();
           inner = inner.parent_path()) {
        folders.push_back(mount / inner);
      }
      folders.push_back(mount);
      break;
    }
  }
  return folders;
}

CpuBudget cpu_budget(const fs::path& root) {
  CpuBudget budget;
  budget.affinity = affinity_count();
  budget.usable = budget.affinity;
  budget.limited_by = "affinity";
  budget.cgroup_quota = cgroup_cpu_quota(root);
  if (budget.cgroup_quota) {
    // Rounded down: a thread beyond the quota makes all others wait at every barrier while the
    // group is throttled.
    const auto whole = std::max<int64_t>(1, static_cast<int64_t>(std::floor(*budget.cgroup_quota)));
    if (whole < budget.usable) {
      budget.usable = whole;
      budget.limited_by = "cgroup quota";
    }
  }
  if (const char* text = std::getenv("SLURM_CPUS_PER_TASK")) {
    budget.slurm = parse_int(text);
    if (budget.slurm && *budget.slurm >= 1 && *budget.slurm < budget.usable) {
      budget.usable = *budget.slurm;
      budget.limited_by = "SLURM_CPUS_PER_TASK";
    }
  }
  return budget;
}

std::string cpu_model_name(const fs::path& root) {
  std::ifstream in(root / "proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, 10, "model name") == 0) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) {
        return line.substr(colon + 2);
      }
    }
  }
  return "unknown processor";
}

uint64_t memory_limit(const fs::path& root) {
  uint64_t limit = kilobytes_field(root / "proc/meminfo", "MemTotal:");
  const auto consider = [&limit](const fs::path& file) {
    // Without a limit v2 says "max" (not a number) and v1 a number near 2^63.
    const std::optional<int64_t> bytes = parse_int(first_line(file).value_or(""));
    if (bytes && *bytes > 0 && (limit == 0 || static_cast<uint64_t>(*bytes) < limit)) {
      limit = static_cast<uint64_t>(*bytes);
    }
  };
  for (const fs::path& folder : cgroup_folders(root, "")) {
    consider(folder / "memory.max");
  }
  for (const fs::path& folder : cgroup_folders(root, "memory")) {
    consider(folder / "memory.limit_in_bytes");
  }
  return limit;
}

std::optional<uint64_t> available_memory(const fs::path& root) {
  std::optional<uint64_t> left;
  const auto consider = [&left](uint64_t bytes) { left = std::min(left.value_or(bytes), bytes); };
  if (const uint64_t system = kilobytes_field(root / "proc/meminfo", "MemAvailable:"); system > 0) {
    consider(system);
  }
  const auto below_limit = [&](const fs::path& limit_file, const fs::path& usage_file,
                               const char* cache_key) {
    const std::optional<int64_t> limit = parse_int(first_line(limit_file).value_or(""));
    const std::optional<int64_t> usage = parse_int(first_line(usage_file).value_or(""));
    if (!limit || !usage) return;
    const int64_t cache = counter_in(limit_file.parent_path() / "memory.stat", cache_key);
    const int64_t used = std::max<int64_t>(*usage - cache, 0);
    consider(static_cast<uint64_t>(std::max<int64_t>(*limit - used, 0)));
  };
  for (const fs::path& folder : cgroup_folders(root, "")) {
    below_limit(folder / "memory.max", folder / "memory.current", "inactive_file");
  }
  for (const fs::path& folder : cgroup_folders(root, "memory")) {
    below_limit(folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes",
                "total_inactive_file");
  }
  rlimit space = {};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    // The peak comes again: activations are let go of between steps.
    const uint64_t peak = kilobytes_field(root / "proc/self/status", "VmPeak:");
    consider(space.rlim_cur - std::min<uint64_t>(peak, space.rlim_cur));
  }
  return left;
}

OomKills oom_kills(const fs::path& root) {
  const auto counter = [](const fs::path& file) -> uint64_t {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.compare(0, 9, "oom_kill ") == 0) {
        return std::strtoull(line.c_str() + 9, nullptr, 10);
      }
    }
    return 0;
  };
  OomKills kills;
  // A v2 group counts what happens below it too: the sum only has to rise.
  for (const fs::path& folder : cgroup_folders(root, "")) {
    kills.control_group += counter(folder / "memory.events");
  }
  for (const fs::path& folder : cgroup_folders(root, "memory")) {
    kills.control_group += counter(folder / "memory.oom_control");
  }
  kills.machine = counter(root / "proc/vmstat");
  return kills;
}

ResidentMemory resident_memory() {
  return {kilobytes_field("/proc/self/status", "VmRSS:"),
          kilobytes_field("/proc/self/status", "VmHWM:")};
}

bool reset_resident_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;  // proc(5): resets the peak resident set size
  return out.good();
}

std::string container_kind(const fs::path& root) {
  std::error_code error;
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr && root == "/") {
    return "kubernetes";
  }
  if (fs::exists(root / ".dockerenv", error)) {
    return "docker";
  }
  if (fs::exists(root / "run/.containerenv", error)) {
    return "podman";
  }
  if (fs::exists(root / ".singularity.d", error)) {
    return "apptainer";
  }
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.find("kubepods") != std::string::npos) {
      return "kubernetes";
    }
    if (line.find("/docker") != std::string::npos) {
      return "docker";
    }
    if (line.find("libpod") != std::string::npos) {
      return "podman";
    }
    if (line.find("/lxc") != std::string::npos || line.find("containerd") != std::string::npos) {
      return "container";
    }
  }
  return "";
}

}  // namespace trainctl
