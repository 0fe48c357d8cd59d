#include "trainctl/launch/slurm.h"

#include "environment_fixtures.h"

namespace trainctl::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> nodes(const std::string& text) { return parse_node_list(text, "LIST"); }

TEST(NodeList, TheWholeGrammar) {
  EXPECT_THAT(nodes("host"), ElementsAre("host"));
  EXPECT_THAT(
      nodes("a[1-3,07-09],b,c[1-2]x[3-4]"),
      ElementsAre("a1", "a2", "a3", "a07", "a08", "a09", "b", "c1x3", "c1x4", "c2x3", "c2x4"));
  EXPECT_THAT(nodes("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(nodes("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(nodes("rack-1-node[5]-ib,gpu.example.org"),
              ElementsAre("rack-1-node5-ib", "gpu.example.org"));
  EXPECT_THAT(nodes("[1-2]"), ElementsAre("1", "2"));
  EXPECT_EQ(nodes("n[1-65536]").size(), 65536u);
}

TEST(NodeList, WhatIsNoneIsRefusedWithItsName) {
  for (const char* text :
       {"", ",", "a,", "a,,b", "a[", "a]", "a[1", "a[]", "a[1-]", "a[-3]", "a[3-1]", "a[x-y]",
        "a[1,]", "a[1-2-3]", "a[1[2]]", "a[1]]", "a[ 1]", "a[1-99999999999999999999]"}) {
    EXPECT_THAT(usage_error_of([&] { nodes(text); }),
                AllOf(HasSubstr("LIST"), HasSubstr("'" + std::string(text) + "'")))
        << text;
  }
}

TEST(NodeList, HugeOnesAreRefusedAtOnce) {
  for (const char* text : {"a[1-9999999999]", "a[1-40000]x[1-40000]", "a[1-40000,1-40000]",
                           "a[1-40000],b[1-40000]", "a[0-9223372036854775807]"}) {
    EXPECT_THAT(usage_error_of([&] { nodes(text); }), HasSubstr("more than 65536")) << text;
  }
}

TEST(TasksPerNode, TheWholeGrammar) {
  const auto tasks = [](const std::string& text) { return parse_tasks_per_node(text, "TASKS"); };
  EXPECT_THAT(tasks("4"), ElementsAre(4));
  EXPECT_THAT(tasks("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(tasks("1,2(x2),8"), ElementsAre(1, 2, 2, 8));
  for (const char* text :
       {"", "x", "2(x0)", "2(x", "2(3)", "2(x3),", "-1", "2(x99999999999)", "(x2)", "2 (x3)"}) {
    EXPECT_THAT(usage_error_of([&] { tasks(text); }), HasSubstr("TASKS")) << text;
  }
}

TEST(SlurmStep, NoStepOutsideOfOne) {
  EXPECT_FALSE(read_slurm_step(lookup_in({})));
  EXPECT_FALSE(read_slurm_step(lookup_in({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}})));
}

TEST(SlurmStep, AHeterogeneousJobIsRefusedWithTheCure) {
  for (const Variables& mark :
       {Variables{{"SLURM_HET_SIZE", "2"}}, Variables{{"SLURM_PACK_SIZE", "3"}},
        Variables{{"SLURM_JOB_NODELIST_HET_GROUP_0", "n05"},
                  {"SLURM_JOB_NODELIST_HET_GROUP_1", "n06"}}}) {
    EXPECT_THAT(usage_error_of([&] { read_slurm_step(lookup_in(with(kStep, mark))); }),
                AllOf(HasSubstr(std::prev(mark.end())->first + " is "), HasSubstr("heterogeneous"),
                      HasSubstr("--het-group=0")));
    // A component's only task would otherwise train alone, beside those of the others.
    EXPECT_THAT(
        usage_error_of([&] {
          read_slurm_step(lookup_in(with(with(kStep, mark), {{"SLURM_STEP_NUM_TASKS", "1"}})));
        }),
        HasSubstr("heterogeneous"));
  }
  EXPECT_TRUE(read_slurm_step(lookup_in(with(kStep, {{"SLURM_HET_SIZE", "1"}}))));
  EXPECT_FALSE(read_slurm_step(lookup_in({{"SLURM_JOB_ID", "1"}, {"SLURM_HET_SIZE", "2"}})));
}

// --- trainctl launch ---

const Variables kOnePerNode = with(kStep, {{"SLURM_STEP_NUM_TASKS", "2"},
                                           {"SLURM_NTASKS", "2"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                           {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                           {"SLURM_PROCID", "1"}});

TEST(SlurmLaunch, TakesNodeCountEndpointAndRunId) {
  const auto advice = advise_launch(lookup_in(kOnePerNode), {});
  ASSERT_TRUE(advice.place);
  EXPECT_EQ(advice.place->node_rank, 1);
  EXPECT_EQ(advice.place->node_count, 2);
  EXPECT_EQ(advice.place->endpoint.host, "n05");
  EXPECT_EQ(advice.place->endpoint_origin, "SLURM_STEP_NODELIST is n[05-06]");
  EXPECT_EQ(advice.place->run_id, "slurm-41.1");
  EXPECT_EQ(advice.warning, "");
}

TEST(SlurmLaunch, FlagsThatContradictTheStepAreRefusedWithBothValues) {
  LaunchPlaceFlags flags;
  flags.node_count = 4;
  EXPECT_THAT(usage_error_of([&] { advise_launch(lookup_in(kOnePerNode), flags); }),
              AllOf(HasSubstr("--nnodes is 4"), HasSubstr("SLURM_STEP_NUM_NODES is 2")));
  flags.node_count = 2;
  flags.node_rank = 0;
  flags.node_rank_source = "PET_NODE_RANK";
  EXPECT_THAT(usage_error_of([&] { advise_launch(lookup_in(kOnePerNode), flags); }),
              AllOf(HasSubstr("PET_NODE_RANK is 0"), HasSubstr("SLURM_NODEID is 1")));
  flags.node_rank = 1;
  EXPECT_TRUE(advise_launch(lookup_in(kOnePerNode), flags).place);
}

TEST(SlurmLaunch, SeveralLaunchersOnOneNodeAreRefused) {
  EXPECT_THAT(usage_error_of([&] { advise_launch(lookup_in(kStep), {}); }),
              AllOf(HasSubstr("3 tasks on 2 nodes"), HasSubstr("--ntasks-per-node=1"),
                    HasSubstr("srun trainctl run")));
}

TEST(SlurmLaunch, MoreNodesThanTheJobHasAreRefusedInTheBatchScriptToo) {
  const Variables batch = {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "2"}};
  LaunchPlaceFlags flags;
  flags.node_count = 4;
  EXPECT_THAT(usage_error_of([&] { advise_launch(lookup_in(batch), flags); }),
              AllOf(HasSubstr("--nnodes is 4"), HasSubstr("SLURM_JOB_NUM_NODES is 2")));
  flags.node_count = 2;
  EXPECT_THAT(advise_launch(lookup_in(batch), flags).warning, HasSubstr("without srun"));
  EXPECT_EQ(
      advise_launch(lookup_in({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "1"}}), {}).warning,
      "");
  EXPECT_EQ(advise_launch(lookup_in({}), flags).warning, "");
}

TEST(SlurmLaunch, OneLauncherPerStepAsUsersLoopOverNodesIsLeftAlone) {
  LaunchPlaceFlags flags;
  flags.node_count = 4;
  flags.node_rank = 3;
  const Variables one = with(kStep, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_NUM_NODES", "1"}});
  const auto advice = advise_launch(lookup_in(one), flags);
  EXPECT_FALSE(advice.place);
  EXPECT_EQ(advice.warning, "");
}

}  // namespace
}  // namespace trainctl::testing
