#include "launch/last_heard.h"

#include <gtest/gtest.h>

namespace trainctl {
namespace {

using std::chrono::milliseconds;

TEST(LastHeard, WhoSaysNothingWhileItIsAskedAboutIsSilent) {
  SteadyTime now{};
  LastHeard heard(now);
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(heard.is_silent(now += milliseconds(100), milliseconds(1000)));
  EXPECT_TRUE(heard.is_silent(now += milliseconds(100), milliseconds(1000)));
  heard.note(now);
  EXPECT_FALSE(heard.is_silent(now, milliseconds(1000)));
}

TEST(LastHeard, AGapInTheAskersOwnTimeIsNobodysSilence) {
  SteadyTime now{};
  LastHeard heard(now);
  EXPECT_FALSE(heard.is_silent(now += milliseconds(60000), milliseconds(1000)));
  EXPECT_FALSE(heard.is_silent(now += milliseconds(400), milliseconds(1000)));
}

}  // namespace
}  // namespace trainctl
