#include "trainctl/report/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

PreflightRank rank_with(int64_t rank, double gflops, double milliseconds) {
  return {rank,
          "host" + std::to_string(rank),
          "cpu",
          {{"matmul fp32", "GFLOP/s", true, gflops, "", false},
           {"attention math", "ms", false, milliseconds, "", false}}};
}

TEST(Preflight, NamesTheRankBelowFourFifthsOfTheMedian) {
  const std::vector<PreflightRank> ranks = {rank_with(0, 100, 5), rank_with(1, 79, 5),
                                            rank_with(2, 101, 5), rank_with(3, 100, 7)};
  const auto slow = slow_ranks(ranks);
  ASSERT_EQ(slow.size(), 2U);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_EQ(slow[0].step, "matmul fp32");
  EXPECT_EQ(slow[1].rank, 3);  // where less is better
  EXPECT_NEAR(slow[1].speed, 5.0 / 7, 1e-9);
  EXPECT_THAT(format_preflight(ranks),
              HasSubstr("slow: rank 1 (host1) in matmul fp32: 79.0 GFLOP/s, the median is 100.0"));
  EXPECT_EQ(preflight_to_json(ranks)["slow"][0]["rank"], 1);
}

TEST(Preflight, OneRankIsNeverSlowAndAFastOneIsNot) {
  EXPECT_THAT(slow_ranks({rank_with(0, 1, 1)}), IsEmpty());
  EXPECT_THAT(slow_ranks({rank_with(0, 100, 5), rank_with(1, 101, 5), rank_with(2, 900, 1)}),
              IsEmpty());
}

TEST(Preflight, SaysWhatIsNotHereAndWhatFailed) {
  PreflightRank rank = rank_with(0, 100, 5);
  rank.figures.push_back(
      {"attention cudnn", "ms", false, std::nullopt, "needs compute 8.0", false});
  EXPECT_THAT(format_preflight({rank}), HasSubstr("not here: needs compute 8.0"));
  EXPECT_THAT(format_preflight({rank}), HasSubstr("All steps work."));
  rank.figures.push_back({"write", "MB/s", true, std::nullopt, "No space left on device", true});
  EXPECT_THAT(format_preflight({rank}), HasSubstr("FAILED: No space left on device"));
  EXPECT_THAT(format_preflight({rank}), Not(HasSubstr("All steps work")));
  EXPECT_EQ(preflight_to_json({rank})["fit"], false);
}

TEST(Preflight, TravelsAsJson) {
  PreflightRank rank = rank_with(3, 100, 5);
  rank.figures[1].value.reset();
  rank.figures[1].note = "why";
  rank.figures[1].failed = true;
  EXPECT_EQ(to_json(preflight_rank_from_json(to_json(rank))), to_json(rank));
}

}  // namespace
}  // namespace trainctl
