// What the system allows: shared memory, resource limits, memory and processors.
#include <algorithm>
#include <array>
#include <cmath>

#include "doctor/groups.h"
#include "doctor/limits_evidence.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

constexpr int64_t kMiB = 1 << 20;

// NCCL 2.28's buffer between two GPUs on one channel: 4 MiB for the Simple protocol, 4.7 for LL128,
// 0.5 for LL and a page. It stands in its message "Error while creating shared memory segment …
// (size 9637888)" (NVIDIA/nccl issues 342, 525).
constexpr int64_t kNcclSegment = 9637888;
// Ring and chain go both ways over at least two channels.
constexpr int64_t kSegmentsPerGpu = 4;
// GPUs joined by NVLink need less: 7340384 bytes for each (pytorch/torchtitan issue 853).
constexpr int64_t kLeastPerGpu = 7340384;

LimitsEvidence limits_of(const Evidence& evidence) {
  return evidence_of<LimitsEvidence>(evidence, "limits");
}

std::string bytes_text(int64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : human_bytes(static_cast<uint64_t>(bytes));
}
std::string count_text(int64_t count) {
  return count == kUnlimited ? "unlimited" : std::to_string(count);
}

Finding fine(const std::string& found, Verdict verdict = Verdict::kOk) {
  return {verdict, found, "", "", ""};
}

bool wants_gpu(const DoctorOptions& options) { return options.device != "cpu"; }

Finding judge_shm(const Evidence& evidence, const DoctorOptions& options) {
  const LimitsEvidence limits = limits_of(evidence);
  const SharedMemory& shm = limits.shm;
  const bool several = limits.gpus > 1 && wants_gpu(options);
  if (!shm.there || !shm.writable) {
    return wrong(several ? Verdict::kUnfit : Verdict::kWarning,
                 shm.there ? "/dev/shm may not be written to" : "there is no /dev/shm",
                 "shm-missing");
  }
  const int64_t gpus = std::max<int64_t>(2, limits.gpus);
  const int64_t needed = gpus * kSegmentsPerGpu * kNcclSegment;
  const std::string found =
      "/dev/shm holds " + bytes_text(shm.size) + ", " + bytes_text(shm.free) + " free";
  if (shm.free >= needed) return fine(found);
  const bool fails = several && shm.free < gpus * kLeastPerGpu;
  return wrong(fails ? Verdict::kUnfit : Verdict::kWarning, found, "shm-small",
               {{"free", bytes_text(shm.free)},
                {"gpus", std::to_string(gpus)},
                {"needed", bytes_text(needed)}});
}

Finding judge_locked_memory(const Evidence& evidence, const DoctorOptions& options) {
  const LimitsEvidence limits = limits_of(evidence);
  const std::string found = bytes_text(limits.locked_memory.soft);
  constexpr int64_t kEnough = int64_t{1} << 30;
  if (limits.locked_memory.soft == kUnlimited || limits.locked_memory.soft >= kEnough ||
      !limits.rdma || !wants_gpu(options)) {
    return fine(found);
  }
  return wrong(Verdict::kWarning, found, "memlock-low", {{"limit", found}});
}

Finding judge_open_files(const Evidence& evidence, const DoctorOptions&) {
  const Limit limit = limits_of(evidence).open_files;
  const std::string found = count_text(limit.soft);
  constexpr int64_t kRecommended = 1024, kNeeded = 24;
  if (limit.soft == kUnlimited || limit.soft >= kRecommended) return fine(found);
  return wrong(limit.soft < kNeeded ? Verdict::kUnfit : Verdict::kWarning, found, "open-files-low",
               {{"limit", found}, {"hard", count_text(limit.hard)}});
}

Finding judge_processes(const Evidence& evidence, const DoctorOptions&) {
  const LimitsEvidence limits = limits_of(evidence);
  int64_t left = limits.pids_left;
  std::string who = "the control group's pids.max";
  if (limits.processes.soft != kUnlimited) {
    const int64_t here = std::max<int64_t>(0, limits.processes.soft - limits.processes_used);
    if (left == kUnlimited || here < left) {
      left = here;
      who = "ulimit -u, for all processes of this user together";
    }
  }
  if (left == kUnlimited) return fine("unlimited");
  const std::string found = std::to_string(left) + " more threads may start";
  // LibTorch's pool has a thread for each processor, autograd, Gloo and NCCL some of their own.
  const int64_t needed = limits.processors.usable + 16;
  if (left >= 4 * needed) return fine(found);
  return wrong(left < needed ? Verdict::kUnfit : Verdict::kWarning, found, "threads-few",
               {{"left", std::to_string(left)}, {"needed", std::to_string(needed)}, {"who", who}});
}

Finding judge_stack(const Evidence& evidence, const DoctorOptions&) {
  const Limit limit = limits_of(evidence).stack;
  const std::string found = bytes_text(limit.soft);
  constexpr int64_t kRecommended = kMiB, kNeeded = kMiB / 8;  // a small run lives with 128 KiB
  if (limit.soft == kUnlimited || limit.soft >= kRecommended) return fine(found);
  return wrong(limit.soft < kNeeded ? Verdict::kUnfit : Verdict::kWarning, found, "stack-small",
               {{"limit", found}});
}

Finding judge_address_space(const Evidence& evidence, const DoctorOptions& options) {
  const LimitsEvidence limits = limits_of(evidence);
  const std::string found = bytes_text(limits.address_space.soft);
  if (limits.address_space.soft == kUnlimited) return fine(found);
  const bool fails =
      (wants_gpu(options) && limits.gpus > 0) || limits.address_space.soft < 512 * kMiB;
  return wrong(fails ? Verdict::kUnfit : Verdict::kWarning, found, "address-space-limited",
               {{"limit", found}});
}

Finding judge_file_size(const Evidence& evidence, const DoctorOptions&) {
  const Limit limit = limits_of(evidence).file_size;
  const std::string found = bytes_text(limit.soft);
  if (limit.soft == kUnlimited) return fine(found);
  return wrong(limit.soft < kMiB ? Verdict::kUnfit : Verdict::kWarning, found, "file-size-limited",
               {{"limit", found}});
}

Finding judge_core(const Evidence& evidence, const DoctorOptions&) {
  const Limit limit = limits_of(evidence).core;
  return limit.soft == 0 ? fine("no core files")
                         : fine("a crash may leave a core file of up to " + bytes_text(limit.soft),
                                Verdict::kNote);
}

Finding judge_memory(const Evidence& evidence, const DoctorOptions&) {
  const Memory memory = limits_of(evidence).memory;
  if (memory.total == 0) return fine("not known", Verdict::kNote);
  const bool grouped = memory.cgroup_left != kUnlimited && memory.cgroup_left < memory.available;
  const int64_t left = grouped ? memory.cgroup_left : memory.available;
  std::string found = bytes_text(left) + " free of " + bytes_text(memory.total);
  if (memory.cgroup_limit != kUnlimited && memory.cgroup_limit < memory.total)
    found += ", of which this control group may use " + bytes_text(memory.cgroup_limit);
  // LibTorch alone takes 120 MB; with CUDA 470.
  constexpr int64_t kNeeded = 256 * kMiB, kRecommended = 2048 * kMiB;
  if (left >= kRecommended) return fine(found);
  return wrong(left < kNeeded ? Verdict::kUnfit : Verdict::kWarning, found, "memory-low",
               {{"left", bytes_text(left)},
                {"who", grouped ? "this control group (container, Slurm job)" : "this machine"}});
}

Finding judge_swap(const Evidence& evidence, const DoctorOptions&) {
  const Memory memory = limits_of(evidence).memory;
  if (memory.swap_total == 0) return fine("none");
  const std::string found =
      bytes_text(memory.swap_used) + " of " + bytes_text(memory.swap_total) + " used";
  if (memory.swap_used < memory.swap_total / 2) return fine(found);
  return wrong(Verdict::kWarning, found, "swap-in-use", {{"used", bytes_text(memory.swap_used)}});
}

Finding judge_overcommit(const Evidence& evidence, const DoctorOptions& options) {
  const LimitsEvidence limits = limits_of(evidence);
  if (limits.memory.overcommit != 2) return fine("allowed");
  const std::string left = bytes_text(limits.memory.commit_left);
  const std::string found = "strict (vm.overcommit_memory=2), " + left + " left to promise";
  constexpr int64_t kPlenty = int64_t{64} << 30;
  if (limits.memory.commit_left >= kPlenty && !(wants_gpu(options) && limits.gpus > 0))
    return fine(found, Verdict::kNote);
  return wrong(Verdict::kWarning, found, "overcommit-strict", {{"left", left}});
}

Finding judge_oom_kills(const Evidence& evidence, const DoctorOptions&) {
  const Memory memory = limits_of(evidence).memory;
  if (memory.oom_kills_group > 0) {
    const std::string count = std::to_string(memory.oom_kills_group);
    return wrong(Verdict::kWarning, count + " in this control group", "oom-killed",
                 {{"count", count}});
  }
  if (memory.oom_kills_machine > 0) {
    return fine(std::to_string(memory.oom_kills_machine) + " on this machine since it started",
                Verdict::kNote);
  }
  return fine("none");
}

Finding judge_huge_pages(const Evidence& evidence, const DoctorOptions&) {
  const std::string mode = limits_of(evidence).memory.huge_pages;
  return fine(mode.empty() ? "not known" : mode, mode == "never" ? Verdict::kNote : Verdict::kOk);
}

std::string processors_text(const Processors& processors) {
  std::string text =
      std::to_string(processors.usable) + " of " + std::to_string(processors.online) + " usable";
  return processors.usable < processors.online ? text + " (" + processors.limited_by + ")" : text;
}

Finding judge_processors(const Evidence& evidence, const DoctorOptions&) {
  const Processors processors = limits_of(evidence).processors;
  const std::string found = processors_text(processors);
  if (processors.usable == processors.online) return fine(found);
  if (processors.usable > 1 || processors.online <= 2) return fine(found, Verdict::kNote);
  return wrong(Verdict::kWarning, found, "one-processor",
               {{"online", std::to_string(processors.online)}, {"why", processors.limited_by}});
}

Finding judge_throttling(const Evidence& evidence, const DoctorOptions&) {
  const Processors processors = limits_of(evidence).processors;
  if (processors.cgroup_quota < 0) return fine("no quota");
  const auto share = processors.periods > 0 ? static_cast<double>(processors.throttled) /
                                                  static_cast<double>(processors.periods)
                                            : 0.0;
  const std::string found = "made to wait in " + std::to_string(std::lround(100 * share)) +
                            " % of " + std::to_string(processors.periods) + " periods";
  if (share < 0.05) return fine(found);
  char quota[32];
  std::snprintf(quota, sizeof quota, "%.1f", processors.cgroup_quota);
  return wrong(Verdict::kWarning, found, "cpu-throttled", {{"quota", quota}});
}

constexpr std::array kProbes = {
    Probe{"limits.shm", "shared memory", judge_shm},
    Probe{"limits.memory", "memory", judge_memory},
    Probe{"limits.swap", "swap", judge_swap},
    Probe{"limits.overcommit", "overcommit", judge_overcommit},
    Probe{"limits.oom_kills", "killed for memory", judge_oom_kills},
    Probe{"limits.huge_pages", "huge pages", judge_huge_pages},
    Probe{"limits.processors", "processors", judge_processors},
    Probe{"limits.throttling", "processor quota", judge_throttling},
    Probe{"limits.locked_memory", "locked memory", judge_locked_memory},
    Probe{"limits.open_files", "open files", judge_open_files},
    Probe{"limits.threads", "threads", judge_processes},
    Probe{"limits.stack", "stack", judge_stack},
    Probe{"limits.address_space", "address space", judge_address_space},
    Probe{"limits.file_size", "file size", judge_file_size},
    Probe{"limits.core", "core files", judge_core},
};

Json gather(const DoctorOptions& options) { return to_evidence(gather_limits(options.root)); }

}  // namespace

Group limits_group() { return {"limits", gather, kProbes, true}; }

}  // namespace trainctl::doctor
