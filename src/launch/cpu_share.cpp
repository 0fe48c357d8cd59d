#include "launch/cpu_share.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>

namespace trainctl {
namespace {

std::optional<int> number_in(const fs::path& path) {
  int number = 0;
  std::ifstream in(path);
  return in >> number ? std::optional(number) : std::nullopt;
}

std::string line_in(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Package by package, core by core, so that a contiguous share holds whole cores.
std::vector<int> by_core(std::vector<int> cpus, const fs::path& root) {
  std::map<int, std::tuple<int, int>> place;
  for (const int cpu : cpus) {
    const fs::path topology =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    place[cpu] = {number_in(topology / "physical_package_id").value_or(0),
                  number_in(topology / "core_id").value_or(cpu)};
  }
  std::stable_sort(cpus.begin(), cpus.end(),
                   [&place](int a, int b) { return place[a] < place[b]; });
  return cpus;
}

// The allowed processors of the NUMA node that the device hangs on; empty when it is not known.
std::vector<int> near_device(const std::string& pci, const std::vector<int>& allowed,
                             const fs::path& root) {
  if (pci.empty()) return {};
  std::string lower = pci;  // /proc/driver/nvidia and sysfs disagree on case
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto node = number_in(root / "sys/bus/pci/devices" / lower / "numa_node");
  if (!node || *node < 0) return {};
  std::vector<int> cpus;
  const auto list = parse_cpu_list(
      line_in(root / "sys/devices/system/node" / ("node" + std::to_string(*node)) / "cpulist"));
  for (const int cpu : list)
    if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

int64_t threads_per_rank(const CpuBudget& budget, int64_t ranks) {
  return std::max<int64_t>(1, budget.usable / ranks);
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  // The fixed cpu_set_t holds 1,024 processors; larger machines need a larger set.
  for (int capacity = 1024; capacity <= 1 << 20 && cpus.empty(); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    if (set != nullptr && sched_getaffinity(0, size, set) == 0) {
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
  }
  return cpus;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    int first = 0, last = 0;
    const char* const part_end = part.data() + part.size();
    auto [end, error] = std::from_chars(part.data(), part_end, first);
    if (error != std::errc()) continue;
    last = first;
    if (end != part_end && *end == '-') {
      const auto upper = std::from_chars(end + 1, part_end, last);
      if (upper.ec != std::errc()) continue;
    }
    for (int cpu = first; cpu <= last && last < 1 << 20; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end > i) text += "-" + std::to_string(cpus[end]);
    i = end + 1;
  }
  return text;
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& allowed,
                                         const std::vector<std::string>& pci_of_rank,
                                         const fs::path& root) {
  const size_t ranks = pci_of_rank.size();
  if (ranks == 0 || allowed.size() < ranks) return {};
  // Ranks that draw on the same processors share them equally.
  std::map<std::vector<int>, std::vector<size_t>> groups;
  for (size_t rank = 0; rank < ranks; ++rank)
    groups[near_device(pci_of_rank[rank], allowed, root)].push_back(rank);
  const bool near_all = std::all_of(groups.begin(), groups.end(), [](const auto& group) {
    return group.first.size() >= group.second.size();
  });
  if (!near_all) {  // a GPU's node is unknown, or too small for its ranks: split evenly
    groups.clear();
    for (size_t rank = 0; rank < ranks; ++rank) groups[allowed].push_back(rank);
  }
  std::vector<std::vector<int>> shares(ranks);
  for (const auto& [cpus, members] : groups) {
    const std::vector<int> ordered = by_core(cpus, root);
    for (size_t i = 0; i < members.size(); ++i) {
      const size_t begin = ordered.size() * i / members.size();
      const size_t end = ordered.size() * (i + 1) / members.size();
      shares[members[i]].assign(ordered.begin() + static_cast<std::ptrdiff_t>(begin),
                                ordered.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return shares;
}

}  // namespace trainctl
