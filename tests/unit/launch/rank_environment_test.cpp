#include "launch/rank_environment.h"

#include <map>

#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::map<std::string, std::string> variables(const LaunchOptions& options, const RankPlace& place) {
  NodeAssignment node;
  node.node_rank = 1;
  node.node_count = 2;
  node.first_rank = 4;
  node.world_size = 8;
  node.master_addr = "node0";
  node.master_port = 1234;
  node.run_id = "job7";
  const Variables set = rank_variables(node, options, 4, place);
  return {set.begin(), set.end()};
}

TEST(RankVariables, AreTorchruns) {
  LaunchOptions options;
  options.max_restarts = 3;
  options.role = "trainer";
  RankPlace place;
  place.local_rank = 2;
  place.attempt = 1;
  place.error_file = "/tmp/error.json";
  const auto set = variables(options, place);
  const std::map<std::string, std::string> expected = {
      {"RANK", "6"},
      {"LOCAL_RANK", "2"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_RANK", "6"},
      {"ROLE_WORLD_SIZE", "8"},
      {"ROLE_NAME", "trainer"},
      {"MASTER_ADDR", "node0"},
      {"MASTER_PORT", "1234"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "job7"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TRAINCTL_LAUNCH", "1"}};
  EXPECT_EQ(set, expected);
}

TEST(RankVariables, ThreadsAndOwnDeviceOnlyWhenPlanned) {
  LaunchOptions options;
  options.virtual_local_rank = true;
  RankPlace place;
  place.local_rank = 3;
  place.threads = 2;
  place.visible_device = "GPU-b";
  const auto set = variables(options, place);
  EXPECT_EQ(set.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(set.at("CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(set.at("LOCAL_RANK"), "0");
  EXPECT_EQ(set.at("RANK"), "7");
}

TEST(MergeEnvironment, ReplacesWhatIsSetAndKeepsTheRest) {
  char rank[] = "RANK=9", home[] = "HOME=/h", odd[] = "ODD", ranks[] = "RANKS=1";
  char* before[] = {rank, home, odd, ranks, nullptr};
  EXPECT_THAT(merge_environment(before, {{"RANK", "0"}, {"NEW", "a=b"}}),
              ElementsAre("HOME=/h", "ODD", "RANKS=1", "RANK=0", "NEW=a=b"));
}

TEST(RankArguments, ReplaceTheMacroOfTorchrun) {
  EXPECT_THAT(
      rank_arguments({"x", "--gpu=${local_rank}", "${local_rank}${local_rank}", "$HOME"}, 3),
      ElementsAre("x", "--gpu=3", "33", "$HOME"));
}

}  // namespace
}  // namespace trainctl
