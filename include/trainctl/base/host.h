// What this machine gives this process: processors, memory, container. Torch-free, so that the
// launcher and doctor ask the same questions as the engine. Each reader takes the root of the file
// system it looks at, so that tests can give it a made-up /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

// The folders of this process's control group and its ancestors, innermost first, for a v1
// controller or (controller empty) for v2. Limits may stand on any of them. In a container without
// a control group namespace the named path does not exist below the mount: only the mount is left.
std::vector<fs::path> cgroup_folders(const fs::path& root, const std::string& controller);

struct CpuBudget {
  int64_t affinity = 1;                // processors in this process's affinity mask
  std::optional<double> cgroup_quota;  // processors' worth of time the control group may use
  std::optional<int64_t> slurm;        // SLURM_CPUS_PER_TASK
  int64_t usable = 1;                  // the smallest of them, at least 1
  std::string limited_by;              // "affinity", "cgroup quota", "SLURM_CPUS_PER_TASK"
};

CpuBudget cpu_budget(const fs::path& root = "/");

std::string cpu_model_name(const fs::path& root = "/");

// Bytes this process may use: physical memory, or the control group's limit where that is smaller.
uint64_t memory_limit(const fs::path& root = "/");

// Bytes this process may still use: the least of what the kernel calls available, what is left
// below the control group's limit (clean cache of files does not count as used), and what its limit
// of address space leaves beside its peak. Nothing where none can be told.
std::optional<uint64_t> available_memory(const fs::path& root = "/");

struct ResidentMemory {  // bytes
  uint64_t current = 0;
  uint64_t peak = 0;
};
ResidentMemory resident_memory();
// Lets the peak start again from the current value. False where the kernel does not allow it.
bool reset_resident_peak();

// How often the kernel's OOM killer has struck: in this process's control groups (v2 memory.events,
// v1 memory.oom_control) and on the whole machine (/proc/vmstat). Only differences mean something.
struct OomKills {
  uint64_t control_group = 0;
  uint64_t machine = 0;
};
OomKills oom_kills(const fs::path& root = "/");

// "docker", "podman", "kubernetes", "apptainer" or "container"; empty outside of one.
std::string container_kind(const fs::path& root = "/");

}  // namespace trainctl
