// How the processors of a node are shared among its ranks: threads for each, and which processors
// each keeps to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/base/host.h"

namespace trainctl {

// Threads for each of `ranks`: the smallest of affinity, cgroup quota and SLURM_CPUS_PER_TASK,
// divided, at least 1.
int64_t threads_per_rank(const CpuBudget& budget, int64_t ranks);

std::vector<int> allowed_cpus();  // of this process's affinity mask, by number

// "0-3,8": as the kernel writes lists of processors. Malformed parts are left out.
std::vector<int> parse_cpu_list(const std::string& text);
std::string format_cpu_list(std::vector<int> cpus);

// One set for each rank, or nothing when ranks would have to share processors (more ranks than
// processors). `pci_of_rank` names each rank's GPU ("" unknown): ranks whose GPU hangs on a NUMA
// node take their share of that node's processors. Else neighbouring ranks get neighbouring
// cores, and the threads of one core stay together.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& allowed,
                                         const std::vector<std::string>& pci_of_rank,
                                         const fs::path& root = "/");

}  // namespace trainctl
