#include "parallel/failure.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "parallel/network.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using testing::HasSubstr;
using testing::Not;

RankState rank_at(int64_t rank, int64_t joined, const char* doing, double since, double beat) {
  RankState state;
  state.rank = rank;
  state.who = "host" + std::to_string(rank) + ", process 1" + std::to_string(rank);
  state.step = 37;
  state.doing = doing;
  state.joined = joined;
  state.since = since;
  state.beat = beat;
  return state;
}

constexpr double kNow = 1000000;

TEST(HangReport, NamesTheSilentRankWithHostStepAndOperation) {
  const std::vector<RankState> ranks = {
      rank_at(0, 9, "sum of gradients", kNow - 20, kNow),
      rank_at(1, 7, "forward and backward passes", kNow - 30, kNow - 25),
      rank_at(2, 9, "sum of gradients", kNow - 20, kNow)};
  const std::string text = hang_report(ranks, ranks[0], kNow, 20);
  EXPECT_THAT(text, HasSubstr("rank 0 still waits for others in step 37, sum of gradients"));
  EXPECT_THAT(text, HasSubstr("Missing: rank 1 (host1, process 11): no sign of life for 25s, last "
                              "seen in step 37, forward and backward passes at "));
  EXPECT_THAT(text, Not(HasSubstr("rank 2")));
  EXPECT_THAT(text, HasSubstr("stopped"));
}

TEST(HangReport, SaysWhatALivingRankDoesSoLong) {
  const std::vector<RankState> ranks = {rank_at(0, 7, "saving a checkpoint", kNow - 61, kNow),
                                        rank_at(1, 9, "sum of gradients", kNow - 60, kNow)};
  const std::string text = hang_report(ranks, ranks[1], kNow, 60);
  EXPECT_THAT(text, HasSubstr("Missing: rank 0 (host0, process 10): alive, in step 37, saving a "
                              "checkpoint since "));
  EXPECT_THAT(text, HasSubstr("raise parallel.timeout"));
}

TEST(HangReport, BlamesTheNetworkWhenAllHaveCome) {
  const std::vector<RankState> ranks = {rank_at(0, 9, "sum of gradients", kNow - 60, kNow),
                                        rank_at(1, 9, "sum of gradients", kNow - 60, kNow)};
  EXPECT_THAT(hang_report(ranks, ranks[0], kNow, 60), HasSubstr("the network between them"));
}

TEST(HangReport, CutsLongLists) {
  std::vector<RankState> ranks = {rank_at(0, 9, "sum of gradients", kNow - 60, kNow)};
  for (int64_t rank = 1; rank < 100; ++rank) ranks.push_back(rank_at(rank, 8, "x", kNow, kNow));
  const std::string text = hang_report(ranks, ranks[0], kNow, 60);
  EXPECT_THAT(text, HasSubstr("Missing are 99"));
  EXPECT_LT(text.size(), 1000U);
}

TEST(FailureKind, TellsConnectionsFromTheRest) {
  const auto kind = [](const char* text) { return failure_kind(std::runtime_error(text)); };
  EXPECT_EQ(kind("[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
                 "waiting 3000ms for recv operation to complete"),
            FailureKind::kTimeout);
  EXPECT_EQ(kind("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
                 "peer [127.0.0.1]:37211"),
            FailureKind::kPeerLost);
  EXPECT_EQ(kind("Application timeout caused pair closure"), FailureKind::kTimeout);
  EXPECT_EQ(kind("bad allocation"), FailureKind::kOther);
  EXPECT_EQ(kind("timeout in some model"), FailureKind::kOther);
}

TEST(Network, FindsTheInterfaceWithoutTheOwnName) {
  EXPECT_EQ(local_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(local_address_towards("::1"), "::1");
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_FALSE(is_loopback("10.127.0.1"));
}

TEST(Network, RefusesANameThatDoesNotResolveNamingItsSource) {
  try {
    require_resolvable("no-such-host.invalid", "MASTER_ADDR, set by torchrun");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_THAT(error.what(), HasSubstr("'no-such-host.invalid' (MASTER_ADDR, set by torchrun)"));
  }
}

}  // namespace
}  // namespace trainctl
