#include <gmock/gmock.h>

#include "doctor/limits_evidence.h"
#include "judging.h"
#include "support/testing.h"

namespace trainctl::doctor {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;

// A machine on which everything is as it should be.
LimitsEvidence good_machine() {
  LimitsEvidence limits;
  limits.shm = {true, true, kGiB, kGiB};
  limits.memory.total = limits.memory.available = 64 * kGiB;
  limits.processors = {8, 8, kUnlimited, kUnlimited, 8, "affinity", 0, 0};
  limits.core.soft = 0;
  limits.memory.huge_pages = "madvise";
  return limits;
}

std::string said_of(const std::string& id, const LimitsEvidence& limits,
                    const DoctorOptions& options = {}) {
  return said(judge(limits_group(), id, limits, options));
}

TEST(LimitsProbes, FindNothingOnAGoodMachine) {
  for (const Probe& probe : limits_group().probes) {
    EXPECT_EQ(said_of(probe.id, good_machine()), "ok") << probe.id;
  }
}

TEST(LimitsProbes, ShmOfOneMegabyteIsNamedWithTheSizeNeeded) {
  LimitsEvidence limits = good_machine();
  limits.shm = {true, true, kMiB, kMiB};
  limits.gpus = 8;
  const Finding finding = judge(limits_group(), "limits.shm", limits);
  EXPECT_EQ(said(finding), "unfit shm-small");
  EXPECT_THAT(finding.found, HasSubstr("/dev/shm holds 1.0 MiB"));
  EXPECT_THAT(finding.cause, HasSubstr("8 GPUs may need 294 MiB"));
  EXPECT_THAT(finding.cure, HasSubstr("--shm-size=1g"));
}

TEST(LimitsProbes, DockersShmWarnsAndOnlyNcclNeedsIt) {
  LimitsEvidence limits = good_machine();
  limits.shm = {true, true, 64 * kMiB, 64 * kMiB};
  limits.gpus = 4;
  EXPECT_EQ(said_of("limits.shm", limits), "warning shm-small");
  limits.shm.free = kMiB;
  EXPECT_EQ(said_of("limits.shm", limits), "unfit shm-small");
  EXPECT_EQ(said_of("limits.shm", limits, for_cpu()), "warning shm-small");
  limits.gpus = 1;
  EXPECT_EQ(said_of("limits.shm", limits), "warning shm-small");
}

TEST(LimitsProbes, ShmMustBeThereAndWritable) {
  LimitsEvidence limits = good_machine();
  limits.shm.writable = false;
  EXPECT_EQ(said_of("limits.shm", limits), "warning shm-missing");
  limits.shm = {};
  limits.gpus = 2;
  EXPECT_EQ(said_of("limits.shm", limits), "unfit shm-missing");
}

TEST(LimitsProbes, LockedMemoryMattersWithInfiniBand) {
  LimitsEvidence limits = good_machine();
  limits.locked_memory.soft = 64 << 10;
  EXPECT_EQ(said_of("limits.locked_memory", limits), "ok");
  limits.rdma = true;
  EXPECT_EQ(said_of("limits.locked_memory", limits), "warning memlock-low");
}

TEST(LimitsProbes, FewOpenFiles) {
  LimitsEvidence limits = good_machine();
  limits.open_files = {256, 4096};
  EXPECT_EQ(said_of("limits.open_files", limits), "warning open-files-low");
  EXPECT_THAT(judge(limits_group(), "limits.open_files", limits).cure,
              HasSubstr("hard limit, 4096"));
  limits.open_files.soft = 16;
  EXPECT_EQ(said_of("limits.open_files", limits), "unfit open-files-low");
}

TEST(LimitsProbes, ThreadsAreLimitedByUserAndByControlGroup) {
  LimitsEvidence limits = good_machine();
  limits.processes = {1000, 1000};
  limits.processes_used = 990;
  const Finding finding = judge(limits_group(), "limits.threads", limits);
  EXPECT_EQ(said(finding), "unfit threads-few");
  EXPECT_THAT(finding.cause, HasSubstr("ulimit -u"));
  limits.processes = {};
  limits.pids_left = 30;
  EXPECT_EQ(said_of("limits.threads", limits), "warning threads-few");
  limits.pids_left = 10000;
  EXPECT_EQ(said_of("limits.threads", limits), "ok");
}

TEST(LimitsProbes, ResourceLimitsThatEndRuns) {
  LimitsEvidence limits = good_machine();
  limits.stack.soft = 512 << 10;
  limits.address_space.soft = 8 * kGiB;
  limits.file_size.soft = 100 * kMiB;
  EXPECT_EQ(said_of("limits.stack", limits), "warning stack-small");
  EXPECT_EQ(said_of("limits.address_space", limits), "warning address-space-limited");
  EXPECT_EQ(said_of("limits.file_size", limits), "warning file-size-limited");
  limits.stack.soft = 64 << 10;
  limits.gpus = 1;
  limits.file_size.soft = 1024;
  EXPECT_EQ(said_of("limits.stack", limits), "unfit stack-small");
  EXPECT_EQ(said_of("limits.address_space", limits), "unfit address-space-limited");
  EXPECT_EQ(said_of("limits.address_space", limits, for_cpu()), "warning address-space-limited");
  EXPECT_EQ(said_of("limits.file_size", limits), "unfit file-size-limited");
}

TEST(LimitsProbes, CoreFilesAreNoted) {
  LimitsEvidence limits = good_machine();
  limits.core.soft = kUnlimited;
  EXPECT_EQ(said_of("limits.core", limits), "note");
}

TEST(LimitsProbes, MemoryOfTheControlGroupCounts) {
  LimitsEvidence limits = good_machine();
  limits.memory.cgroup_limit = kGiB;
  limits.memory.cgroup_left = 512 * kMiB;
  const Finding finding = judge(limits_group(), "limits.memory", limits);
  EXPECT_EQ(said(finding), "warning memory-low");
  EXPECT_THAT(finding.found, HasSubstr("control group may use 1.0 GiB"));
  limits.memory.cgroup_left = kUnlimited;
  limits.memory.available = 100 * kMiB;
  EXPECT_EQ(said_of("limits.memory", limits), "unfit memory-low");
}

TEST(LimitsProbes, SwapOvercommitAndKills) {
  LimitsEvidence limits = good_machine();
  limits.memory.swap_total = 8 * kGiB;
  limits.memory.swap_used = 7 * kGiB;
  limits.memory.overcommit = 2;
  limits.memory.commit_left = kGiB;
  limits.memory.oom_kills_machine = 3;
  EXPECT_EQ(said_of("limits.swap", limits), "warning swap-in-use");
  EXPECT_EQ(said_of("limits.overcommit", limits), "warning overcommit-strict");
  EXPECT_EQ(said_of("limits.oom_kills", limits), "note");
  limits.memory.oom_kills_group = 1;
  EXPECT_EQ(said_of("limits.oom_kills", limits), "warning oom-killed");
}

TEST(LimitsProbes, ProcessorsAndTheirQuota) {
  LimitsEvidence limits = good_machine();
  limits.processors.usable = 4;
  EXPECT_EQ(said_of("limits.processors", limits), "note");
  limits.processors.usable = 1;
  limits.processors.limited_by = "affinity";
  EXPECT_EQ(said_of("limits.processors", limits), "warning one-processor");
  limits.processors.cgroup_quota = 1.5;
  limits.processors.periods = 100;
  limits.processors.throttled = 1;
  EXPECT_EQ(said_of("limits.throttling", limits), "ok");
  limits.processors.throttled = 50;
  EXPECT_EQ(said_of("limits.throttling", limits), "warning cpu-throttled");
}

TEST(LimitsEvidence, IsReadFromAMadeUpMachine) {
  FakeRoot root;
  root.write("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max stack size            8388608              unlimited            bytes     \n"
             "Max open files            1024                 4096                 files     \n"
             "Max locked memory         65536                65536                bytes     \n");
  root.write("proc/meminfo",
             "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\nSwapTotal: 100 kB\n"
             "SwapFree: 40 kB\nCommitLimit: 500 kB\nCommitted_AS: 200 kB\n");
  root.write("proc/sys/vm/overcommit_memory", "2\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/job/memory.current", "900000\n");
  root.write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 50000\n");
  root.write("sys/fs/cgroup/job/memory.events", "oom_kill 2\n");
  root.write("sys/fs/cgroup/job/pids.max", "100\n");
  root.write("sys/fs/cgroup/job/pids.current", "90\n");
  root.write("sys/fs/cgroup/job/cpu.stat", "nr_periods 10\nnr_throttled 5\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("dev/nvidia0", "");
  const LimitsEvidence limits = gather_limits(root.path());
  EXPECT_FALSE(limits.shm.there);
  EXPECT_EQ(limits.stack.soft, 8388608);
  EXPECT_EQ(limits.stack.hard, kUnlimited);
  EXPECT_EQ(limits.open_files.hard, 4096);
  EXPECT_EQ(limits.locked_memory.soft, 65536);
  EXPECT_EQ(limits.memory.available, 8000000LL * 1024);
  EXPECT_EQ(limits.memory.swap_used, 60 * 1024);
  EXPECT_EQ(limits.memory.commit_left, 300 * 1024);
  EXPECT_EQ(limits.memory.huge_pages, "madvise");
  EXPECT_EQ(limits.memory.cgroup_limit, 1000000);
  EXPECT_EQ(limits.memory.cgroup_left, 150000);
  EXPECT_EQ(limits.memory.oom_kills_group, 2);
  EXPECT_EQ(limits.pids_left, 10);
  EXPECT_EQ(limits.processors.throttled, 5);
  EXPECT_TRUE(limits.rdma);
  EXPECT_EQ(limits.gpus, 1);
}

TEST(LimitsEvidence, OfAnEmptyMachineIsReadWithoutTrouble) {
  const FakeRoot root;
  const LimitsEvidence limits = gather_limits(root.path());
  for (const Probe& probe : limits_group().probes) judge(limits_group(), probe.id, limits);
  EXPECT_EQ(limits.memory.total, 0);
}

}  // namespace
}  // namespace trainctl::doctor
