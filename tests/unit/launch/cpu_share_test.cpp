#include "launch/cpu_share.h"

#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ThreadsPerRank, SharesWhatMayBeUsedAndLeavesAtLeastOne) {
  CpuBudget budget;
  budget.usable = 8;
  EXPECT_EQ(threads_per_rank(budget, 1), 8);
  EXPECT_EQ(threads_per_rank(budget, 3), 2);
  EXPECT_EQ(threads_per_rank(budget, 100), 1);
}

TEST(CpuLists, AreReadAndWrittenAsTheKernelDoes) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(parse_cpu_list("x,2"), ElementsAre(2));
  EXPECT_EQ(format_cpu_list({3, 0, 1, 2, 8}), "0-3,8");
  EXPECT_EQ(format_cpu_list({}), "");
}

TEST(ShareCpus, NeighbouringRanksGetNeighbouringProcessors) {
  FakeRoot root;
  const auto shares = share_cpus({0, 1, 2, 3}, {"", ""}, root.path());
  EXPECT_THAT(shares, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(ShareCpus, ThreadsOfOneCoreStayTogether) {
  FakeRoot root;
  for (int cpu = 0; cpu < 4; ++cpu) {  // 0 and 2 are one core, 1 and 3 the other
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    root.write(folder + "core_id", std::to_string(cpu % 2));
    root.write(folder + "physical_package_id", "0");
  }
  const auto shares = share_cpus({0, 1, 2, 3}, {"", ""}, root.path());
  EXPECT_THAT(shares, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(ShareCpus, WithFewerProcessorsThanRanksNobodyIsPinned) {
  FakeRoot root;
  EXPECT_THAT(share_cpus({0, 1}, {"", "", ""}, root.path()), IsEmpty());
}

TEST(ShareCpus, RanksTakeTheirShareOfTheirGpusNode) {
  FakeRoot root;
  root.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
  root.write("sys/bus/pci/devices/0000:5e:00.0/numa_node", "1\n");
  root.write("sys/bus/pci/devices/0000:af:00.0/numa_node", "0\n");
  root.write("sys/devices/system/node/node0/cpulist", "0-3\n");
  root.write("sys/devices/system/node/node1/cpulist", "4-7\n");
  const auto shares = share_cpus({0, 1, 2, 3, 4, 5, 6, 7},
                                 {"0000:3B:00.0", "0000:5e:00.0", "0000:af:00.0"}, root.path());
  EXPECT_THAT(shares, ElementsAre(ElementsAre(4, 5), ElementsAre(6, 7), ElementsAre(0, 1, 2, 3)));
}

TEST(ShareCpus, AnUnknownOrForbiddenNodeMeansAnEvenSplit) {
  FakeRoot root;
  root.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
  root.write("sys/devices/system/node/node1/cpulist", "4-7\n");
  const auto shares = share_cpus({0, 1}, {"0000:3b:00.0", ""}, root.path());
  EXPECT_THAT(shares, ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(AllowedCpus, AreThoseOfTheBudget) {
  EXPECT_EQ(static_cast<int64_t>(allowed_cpus().size()), cpu_budget().affinity);
}

}  // namespace
}  // namespace trainctl
