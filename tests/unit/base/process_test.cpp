#include "trainctl/base/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainctl {
namespace {

TEST(ProcessStat, IsReadPastANameWithBracketsAndBlanks) {
  char before[16] = {};
  ::prctl(PR_GET_NAME, before);
  ::prctl(PR_SET_NAME, "a) S 1 (b");
  const auto stat = read_process_stat(::getpid());
  ::prctl(PR_SET_NAME, before);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name, "a) S 1 (b");
  EXPECT_EQ(stat->field(3), "R");
  EXPECT_EQ(stat->number(4), ::getppid());
  EXPECT_EQ(stat->field(22), ProcessIdentity::self().start_time);
  EXPECT_EQ(stat->field(2000), "");
  EXPECT_FALSE(read_process_stat(-1));
}

TEST(ProcessIdentity, SurvivesTextAndKnowsItselfAlive) {
  const ProcessIdentity self = ProcessIdentity::self();
  const ProcessIdentity copy = ProcessIdentity::parse(self.to_string());
  EXPECT_EQ(copy.host, self.host);
  EXPECT_EQ(copy.pid, ::getpid());
  EXPECT_TRUE(copy.is_alive());
}

TEST(ProcessIdentity, AnEndedProcessOrAnotherOfItsNumberIsNotAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  ProcessIdentity other = ProcessIdentity::self();
  other.pid = child;
  EXPECT_FALSE(other.is_alive());
  ProcessIdentity reused = ProcessIdentity::self();
  reused.start_time = "1";
  EXPECT_FALSE(reused.is_alive());
}

TEST(ProcessIdentity, NonsenseIsNoProcess) {
  EXPECT_EQ(ProcessIdentity::parse("").pid, 0);
  EXPECT_EQ(ProcessIdentity::parse("half a lo").pid, 0);
}

}  // namespace
}  // namespace trainctl
