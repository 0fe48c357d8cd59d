// What the system allows this process: as the kernel counts it.
#pragma once

#include <cstdint>

#include "doctor/group.h"

namespace trainctl::doctor {

constexpr int64_t kUnlimited = -1;

struct Limit {
  int64_t soft = kUnlimited;  // what counts
  int64_t hard = kUnlimited;  // how far the user may raise it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Limit, soft, hard)

struct SharedMemory {  // bytes
  bool there = false;
  bool writable = false;
  int64_t size = 0;
  int64_t free = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SharedMemory, there, writable, size, free)

struct Memory {  // bytes
  int64_t total = 0;
  int64_t available = 0;              // without swapping, on the whole machine
  int64_t cgroup_limit = kUnlimited;  // of the control group with the least left
  int64_t cgroup_left = kUnlimited;   // what it may still take, page cache counted as free
  int64_t swap_total = 0;
  int64_t swap_used = 0;
  int64_t overcommit = 0;            // vm.overcommit_memory
  int64_t commit_left = kUnlimited;  // where vm.overcommit_memory is 2
  int64_t oom_kills_group = 0;
  int64_t oom_kills_machine = 0;
  std::string huge_pages;  // transparent ones: always, madvise, never
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Memory, total, available, cgroup_limit, cgroup_left,
                                                swap_total, swap_used, overcommit, commit_left,
                                                oom_kills_group, oom_kills_machine, huge_pages)

struct Processors {
  int64_t online = 1;
  int64_t affinity = 1;
  double cgroup_quota = kUnlimited;
  int64_t slurm = kUnlimited;
  int64_t usable = 1;
  std::string limited_by;
  int64_t periods = 0;    // of the control group's quota so far,
  int64_t throttled = 0;  // and in how many of them it had to wait
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Processors, online, affinity, cgroup_quota, slurm,
                                                usable, limited_by, periods, throttled)

struct LimitsEvidence {
  SharedMemory shm;
  int64_t gpus = 0;
  bool rdma = false;  // there is an InfiniBand or RoCE device
  Limit locked_memory, open_files, processes, stack, address_space, file_size, core;
  int64_t processes_used = 0;      // threads of this user; counted only where there is a limit
  int64_t pids_left = kUnlimited;  // of the control group
  Memory memory;
  Processors processors;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LimitsEvidence, shm, gpus, rdma, locked_memory,
                                                open_files, processes, stack, address_space,
                                                file_size, core, processes_used, pids_left, memory,
                                                processors)

LimitsEvidence gather_limits(const fs::path& root);

}  // namespace trainctl::doctor
