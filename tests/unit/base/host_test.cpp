#include "trainctl/base/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "support/testing.h"

namespace trainctl {
namespace {

class CpuBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("SLURM_CPUS_PER_TASK"); }
  void TearDown() override { unsetenv("SLURM_CPUS_PER_TASK"); }
  FakeRoot root_;
};

TEST_F(CpuBudgetTest, WithoutLimitsTakesAffinity) {
  const CpuBudget budget = cpu_budget(root_.path());
  EXPECT_EQ(budget.usable, budget.affinity);
  EXPECT_EQ(budget.limited_by, "affinity");
  EXPECT_FALSE(budget.cgroup_quota.has_value());
}

TEST_F(CpuBudgetTest, CgroupV2QuotaOfAnAncestorCounts) {
  root_.write("proc/self/cgroup", "0::/jobs/one\n");
  root_.write("sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
  root_.write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  const CpuBudget budget = cpu_budget(root_.path());
  ASSERT_TRUE(budget.cgroup_quota.has_value());
  EXPECT_DOUBLE_EQ(*budget.cgroup_quota, 0.5);
  EXPECT_EQ(budget.usable, 1);
}

TEST_F(CpuBudgetTest, CgroupV1QuotaInAContainerStandsAtTheMount) {
  root_.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const CpuBudget budget = cpu_budget(root_.path());
  ASSERT_TRUE(budget.cgroup_quota.has_value());
  EXPECT_DOUBLE_EQ(*budget.cgroup_quota, 1.5);
  EXPECT_EQ(budget.usable, 1);  // a second thread would be throttled half of the time
}

TEST_F(CpuBudgetTest, CgroupV1WithoutQuotaSaysMinusOne) {
  root_.write("proc/self/cgroup", "4:cpu:/\n");
  root_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root_.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cpu_budget(root_.path()).cgroup_quota.has_value());
}

TEST_F(CpuBudgetTest, SlurmCountsWhereItIsSmallest) {
  setenv("SLURM_CPUS_PER_TASK", "1", 1);
  const CpuBudget budget = cpu_budget(root_.path());
  EXPECT_EQ(budget.usable, 1);
  setenv("SLURM_CPUS_PER_TASK", "100000", 1);
  EXPECT_EQ(cpu_budget(root_.path()).usable, budget.affinity);
  setenv("SLURM_CPUS_PER_TASK", "many", 1);
  EXPECT_EQ(cpu_budget(root_.path()).usable, budget.affinity);
}

TEST(Host, MemoryLimitIsTheSmallerOfMachineAndControlGroup) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 10 kB\n");
  EXPECT_EQ(memory_limit(root.path()), 1000U * 1024);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root.path()), 1000U * 1024);
  root.write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(memory_limit(root.path()), 4096U);
}

TEST(Host, AvailableMemoryIsWhatTheControlGroupLeaves) {
  const FakeRoot root;
  EXPECT_FALSE(available_memory(root.path()).has_value());
  root.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable:  600 kB\n");
  EXPECT_EQ(available_memory(root.path()), 600U * 1024);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "102400\n");
  root.write("sys/fs/cgroup/job/memory.current", "2400\n");
  EXPECT_EQ(available_memory(root.path()), 100000U);
  root.write("sys/fs/cgroup/job/memory.current", "102500\n");  // reclaim is under way
  EXPECT_EQ(available_memory(root.path()), 0U);
  root.write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(available_memory(root.path()), 600U * 1024);
}

TEST(Host, MemoryLimitReadsV1) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal:       1000 kB\n");
  root.write("proc/self/cgroup", "7:memory:/a\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root.path()), 1000U * 1024);
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(memory_limit(root.path()), 8192U);
}

TEST(Host, AvailableMemoryIsWhatMachineAndControlGroupLeave) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable:    600 kB\n");
  EXPECT_EQ(available_memory(root.path()), 600U * 1024);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root.path()), 600U * 1024);
  root.write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(available_memory(root.path()), 3096U);
  root.write("sys/fs/cgroup/memory.stat", "anon 200\ninactive_file 500\nfile 700\n");
  EXPECT_EQ(available_memory(root.path()), 3596U);
  root.write("sys/fs/cgroup/memory.current", "9000\n");
  EXPECT_EQ(available_memory(root.path()), 0U);
}

TEST(Host, NamesTheProcessor) {
  const FakeRoot root;
  EXPECT_EQ(cpu_model_name(root.path()), "unknown processor");
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
  EXPECT_EQ(cpu_model_name(root.path()), "Some CPU @ 2 GHz");
}

TEST(Host, ResidentMemoryFollowsUse) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps freed memory";
#endif
  const ResidentMemory before = resident_memory();
  EXPECT_GT(before.current, 0U);
  EXPECT_GE(before.peak, before.current);
  constexpr size_t kBytes = size_t{64} << 20;
  auto block = std::make_unique<char[]>(kBytes);
  for (size_t i = 0; i < kBytes; i += 4096) {
    block[i] = 1;
  }
  EXPECT_GE(resident_memory().peak, before.current + kBytes / 2);
  block.reset();
  if (reset_resident_peak()) {
    EXPECT_LT(resident_memory().peak, before.peak + kBytes / 2);
  }
}

TEST(Host, RecognisesContainers) {
  EXPECT_EQ(container_kind(FakeRoot().path()), "");
  const std::pair<const char*, const char*> cases[] = {
      {".dockerenv", "docker"}, {"run/.containerenv", "podman"}, {".singularity.d/x", "apptainer"}};
  for (const auto& [file, kind] : cases) {
    const FakeRoot root;
    root.write(file, "");
    EXPECT_EQ(container_kind(root.path()), kind) << file;
  }
  const FakeRoot pod;
  pod.write("proc/self/cgroup", "0::/kubepods.slice/pod1\n");
  EXPECT_EQ(container_kind(pod.path()), "kubernetes");
}

TEST(OomKillsTest, CountsOfControlGroupsAndTheMachineAreRead) {
  FakeRoot root;
  root.write("proc/self/cgroup", "4:memory:/job\n0::/job\n");
  root.write("sys/fs/cgroup/job/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
  root.write("sys/fs/cgroup/memory/job/memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  root.write("proc/vmstat", "nr_free_pages 1\noom_kill 9\n");
  EXPECT_EQ(oom_kills(root.path()).control_group, 7U);
  EXPECT_EQ(oom_kills(root.path()).machine, 9U);
}

TEST(OomKillsTest, NothingKnownIsNothingCounted) {
  FakeRoot root;
  EXPECT_EQ(oom_kills(root.path()).control_group, 0U);
  EXPECT_EQ(oom_kills(root.path()).machine, 0U);
}

}  // namespace
}  // namespace trainctl
