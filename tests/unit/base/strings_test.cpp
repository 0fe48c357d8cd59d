#include "trainctl/base/strings.h"

#include <gtest/gtest.h>

namespace trainctl {
namespace {

TEST(Nearest, FindsTypingMistakesAndRefusesStrangers) {
  const std::vector<std::string> keys = {"learning_rate", "weight_decay", "betas", "eps"};
  EXPECT_EQ(nearest("learning_rte", keys), "learning_rate");
  EXPECT_EQ(nearest("laerning_rate", keys), "learning_rate");
  EXPECT_EQ(nearest("beta", keys), "betas");
  EXPECT_EQ(nearest("pes", keys), "eps");
  EXPECT_EQ(nearest("momentum", keys), std::nullopt);
  EXPECT_EQ(nearest("", keys), std::nullopt);
}

TEST(Human, WritesSizesCountsAndDurationsAsPeopleDo) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(12'345'678), "12.3M");
  EXPECT_EQ(human_duration(3.25), "3.2s");
  EXPECT_EQ(human_duration(75), "1m 15s");
  EXPECT_EQ(human_duration(3661), "1h 01m 01s");
  EXPECT_EQ(human_duration(-1), "?");
}

}  // namespace
}  // namespace trainctl
