#include "environment_fixtures.h"

namespace trainctl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProcessWorld world_of(const Variables& variables) {
  return read_process_world(lookup_in(variables));
}

std::string refusal(const Variables& variables) {
  return usage_error_of([&] { world_of(variables); });
}

TEST(ProcessWorld, NoVariablesAreASingleProcess) {
  const ProcessWorld world = world_of({});
  EXPECT_FALSE(world.distributed());
  EXPECT_EQ(world.world_size, 1);
  EXPECT_EQ(world.local_world_size, 1);
}

TEST(ProcessWorld, ReadsTorchrunsVariables) {
  const ProcessWorld world = world_of(kTorchrun);
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.world_size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_world_size, 2);
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.node_count, 2);
  EXPECT_EQ(world.master_addr, "host1");
  EXPECT_EQ(world.master_port, 29501);
  EXPECT_EQ(world.restart_count, 2);
  EXPECT_EQ(world.run_id, "abc");
  EXPECT_TRUE(world.agent_store);
  EXPECT_EQ(world.source, "torchrun");
}

TEST(ProcessWorld, OurLauncherIsNamedAndHostsNoStore) {
  const ProcessWorld world = world_of(
      with(kTorchrun, {{"TRAINCTL_LAUNCH", "1"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  EXPECT_EQ(world.source, "trainctl launch");
  EXPECT_FALSE(world.agent_store);
}

TEST(ProcessWorld, HostsAreCountedWhereTheLauncherDoesNotSay) {
  const ProcessWorld world =
      world_of(with(kTorchrun, {{"GROUP_RANK", ""}, {"GROUP_WORLD_SIZE", ""}}));
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.node_count, 2);
}

TEST(ProcessWorld, AWorldOfOneNeedsNoAddressAndKeepsItsDevice) {
  const ProcessWorld world = world_of(
      {{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "2"}, {"TORCHELASTIC_RUN_ID", "x"}});
  EXPECT_FALSE(world.distributed());
  EXPECT_EQ(world.local_rank, 2);
  EXPECT_EQ(world.run_id, "x");
}

TEST(ProcessWorld, EachMissingVariableIsNamed) {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT(refusal(with(kTorchrun, {{name, ""}})),
                AllOf(HasSubstr("WORLD_SIZE is 4"), HasSubstr(std::string(name) + " is not set")));
  }
  EXPECT_THAT(refusal({{"RANK", "1"}}),
              AllOf(HasSubstr("RANK is 1"), HasSubstr("WORLD_SIZE is not set")));
}

TEST(ProcessWorld, SenselessValuesAreRefused) {
  const std::vector<std::pair<Variables, std::vector<std::string>>> cases = {
      {{{"WORLD_SIZE", "0"}}, {"WORLD_SIZE", "'0'"}},
      {{{"WORLD_SIZE", "four"}}, {"WORLD_SIZE", "'four'"}},
      {{{"WORLD_SIZE", "4 "}}, {"WORLD_SIZE", "'4 '"}},
      {{{"WORLD_SIZE", "99999999999999999999"}}, {"WORLD_SIZE", "'99999999999999999999'"}},
      {{{"RANK", "-1"}}, {"RANK", "'-1'"}},
      {{{"RANK", "4"}}, {"RANK is 4", "WORLD_SIZE is 4", "0 to 3"}},
      {{{"LOCAL_RANK", "2"}}, {"LOCAL_RANK is 2", "LOCAL_WORLD_SIZE is 2"}},
      {{{"LOCAL_WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}},
       {"LOCAL_WORLD_SIZE is 8", "WORLD_SIZE is 4"}},
      {{{"LOCAL_WORLD_SIZE", "0"}}, {"LOCAL_WORLD_SIZE", "'0'"}},
      {{{"GROUP_RANK", "2"}}, {"GROUP_RANK is 2", "GROUP_WORLD_SIZE is 2"}},
      {{{"MASTER_PORT", "0"}}, {"MASTER_PORT", "'0'"}},
      {{{"MASTER_PORT", "65536"}}, {"MASTER_PORT is 65536", "1 to 65535"}},
      {{{"TORCHELASTIC_RESTART_COUNT", "x"}}, {"TORCHELASTIC_RESTART_COUNT", "'x'"}},
  };
  for (const auto& [changes, texts] : cases) {
    const std::string message = refusal(with(kTorchrun, changes));
    for (const std::string& text : texts) EXPECT_THAT(message, HasSubstr(text));
  }
  EXPECT_THAT(refusal({{"WORLD_SIZE", "1"}, {"RANK", "1"}}), HasSubstr("RANK is 1"));
}

// --- Slurm ---

TEST(ProcessWorld, ReadsTheStepThatSrunHasStarted) {
  const ProcessWorld world = world_of(kStep);
  EXPECT_EQ(world.rank, 2);
  EXPECT_EQ(world.world_size, 3);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_world_size, 1);
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.node_count, 2);
  EXPECT_EQ(world.master_addr, "n05");
  EXPECT_GE(world.master_port, 15000);
  EXPECT_LT(world.master_port, 30000);
  EXPECT_EQ(world.run_id, "slurm-41.1");
  EXPECT_EQ(world.source, "srun");
  EXPECT_FALSE(world.agent_store);
}

TEST(ProcessWorld, AllTasksOfAStepDeriveThePortAndOtherStepsAnother) {
  const int64_t port = world_of(kStep).master_port;
  EXPECT_EQ(world_of(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}})).master_port,
            port);
  EXPECT_NE(world_of(with(kStep, {{"SLURM_STEP_ID", "2"}})).master_port, port);
  EXPECT_NE(world_of(with(kStep, {{"SLURM_JOB_ID", "42"}})).master_port, port);
}

TEST(ProcessWorld, AddressAndPortOfTheScriptComeFirst) {
  const ProcessWorld world =
      world_of(with(kStep, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}}));
  EXPECT_EQ(world.master_addr, "10.0.0.1");
  EXPECT_EQ(world.master_port, 4000);
  EXPECT_EQ(world_of(with(kStep, {{"SLURM_STEP_RESV_PORTS", "12003-12005"}})).master_port, 12003);
  EXPECT_THAT(refusal(with(kStep, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT is 70000"));
}

TEST(ProcessWorld, TheBatchScriptAndInteractiveShellsAreOneProcess) {
  // sbatch --ntasks=4, as its script sees it.
  const Variables batch = {{"SLURM_JOB_ID", "41"},       {"SLURM_NTASKS", "4"},
                           {"SLURM_PROCID", "0"},        {"SLURM_LOCALID", "0"},
                           {"SLURM_NODEID", "0"},        {"SLURM_TASKS_PER_NODE", "2(x2)"},
                           {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
  EXPECT_EQ(world_of(batch).world_size, 1);
  for (const char* step : {"4294967291", "4294967290", "4294967292", "-5"}) {
    EXPECT_EQ(world_of(with(batch, {{"SLURM_STEP_ID", step}})).world_size, 1) << step;
  }
  EXPECT_EQ(world_of({{"SLURM_NTASKS", "4"}}).world_size, 1);
}

TEST(ProcessWorld, AStepOfOneTaskInALargerJobIsOneProcess) {
  EXPECT_EQ(world_of({{"SLURM_JOB_ID", "1"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NUM_TASKS", "1"}})
                .world_size,
            1);
}

TEST(ProcessWorld, LaunchersUnderSrunCountForThemselves) {
  Variables both = kStep;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  const ProcessWorld world = world_of(both);
  EXPECT_EQ(world.world_size, 4);
  EXPECT_EQ(world.source, "torchrun");
}

TEST(ProcessWorld, VariablesOfTheScriptMustAgreeWithTheStep) {
  EXPECT_EQ(world_of(with(kStep, {{"WORLD_SIZE", "3"}, {"RANK", "2"}})).rank, 2);
  EXPECT_THAT(refusal(with(kStep, {{"WORLD_SIZE", "8"}})),
              AllOf(HasSubstr("WORLD_SIZE is 8"), HasSubstr("SLURM_STEP_NUM_TASKS is 3")));
  EXPECT_THAT(refusal(with(kStep, {{"RANK", "0"}})),
              AllOf(HasSubstr("RANK is 0"), HasSubstr("SLURM_PROCID is 2")));
}

TEST(ProcessWorld, ContradictingStepsAreRefusedWithTheirValues) {
  const std::vector<std::pair<Variables, std::vector<std::string>>> cases = {
      {{{"SLURM_PROCID", ""}}, {"SLURM_STEP_NUM_TASKS is 3", "SLURM_PROCID is not set"}},
      {{{"SLURM_LOCALID", ""}}, {"SLURM_LOCALID is not set"}},
      {{{"SLURM_NODEID", ""}}, {"SLURM_STEP_NUM_NODES is 2", "SLURM_NODEID is not set"}},
      {{{"SLURM_PROCID", "3"}}, {"SLURM_PROCID is 3", "SLURM_STEP_NUM_TASKS is 3"}},
      {{{"SLURM_NODEID", "2"}}, {"SLURM_NODEID is 2", "SLURM_STEP_NUM_NODES is 2"}},
      {{{"SLURM_LOCALID", "1"}}, {"SLURM_LOCALID is 1", "SLURM_STEP_TASKS_PER_NODE is 2,1"}},
      {{{"SLURM_STEP_NUM_NODES", "3"}},
       {"SLURM_STEP_TASKS_PER_NODE is 2,1", "SLURM_STEP_NUM_NODES is 3"}},
      {{{"SLURM_STEP_NUM_TASKS", "5"}},
       {"SLURM_STEP_TASKS_PER_NODE is 2,1", "SLURM_STEP_NUM_TASKS is 5"}},
      {{{"SLURM_STEP_NODELIST", "n[1-3]"}},
       {"SLURM_STEP_NODELIST is n[1-3]", "SLURM_STEP_NUM_NODES is 2"}},
      {{{"SLURM_STEP_NODELIST", "n[1-"}}, {"SLURM_STEP_NODELIST", "'n[1-'"}},
      {{{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}}, {"set MASTER_ADDR"}},
      {{{"SLURM_TASKS_PER_NODE", "4"}},
       {"SLURM_TASKS_PER_NODE is 4", "left over from another job"}},
  };
  for (const auto& [changes, texts] : cases) {
    const std::string message = refusal(with(kStep, changes));
    for (const std::string& text : texts) EXPECT_THAT(message, HasSubstr(text));
  }
}

// --- MPI ---

TEST(ProcessWorld, MpiLaunchersAreRefusedWithTheCure) {
  for (const Variables& variables :
       {Variables{{"OMPI_COMM_WORLD_SIZE", "2"}}, Variables{{"PMI_SIZE", "2"}},
        Variables{{"MV2_COMM_WORLD_SIZE", "2"}}, Variables{{"PMIX_RANK", "0"}}}) {
    EXPECT_THAT(refusal(variables),
                AllOf(HasSubstr("mpirun"), HasSubstr(variables.begin()->first + " is "),
                      HasSubstr("trainctl launch")));
  }
  EXPECT_EQ(world_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).world_size, 1);
}

TEST(ProcessWorld, SlurmsOwnMpiPluginsAreNoMpirun) {
  EXPECT_EQ(world_of(with(kStep, {{"PMIX_RANK", "2"}, {"PMI_SIZE", "3"}})).source, "srun");
  EXPECT_EQ(world_of({{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "4294967290"}, {"PMIX_RANK", "0"}})
                .world_size,
            1);
}

}  // namespace
}  // namespace trainctl::testing
