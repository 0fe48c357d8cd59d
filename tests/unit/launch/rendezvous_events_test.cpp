// What launchers tell each other while an attempt runs, and how it ends for all of them.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "rendezvous_fixtures.h"

namespace trainctl::testing {
namespace {

using Kind = NodeEvent::Kind;

class RunningGroup : public ::testing::Test {
 protected:
  void begin(int64_t nodes) {
    options_ = options_at(free_port(), nodes);
    for (int64_t rank = 0; rank < nodes; ++rank) {
      launchers_.push_back(std::make_unique<Launcher>(
          options_, offer_of(std::string(1, static_cast<char>('a' + rank)), rank)));
    }
    join_all(0);
  }
  void join_all(int64_t attempt) {
    for (auto& launcher : launchers_) launcher->join(attempt);
    assignments_.clear();
    for (auto& launcher : launchers_) assignments_.push_back(launcher->assignment());
  }
  Launcher& at(size_t node) { return *launchers_.at(node); }

  RendezvousOptions options_;
  std::vector<std::unique_ptr<Launcher>> launchers_;
  std::vector<NodeAssignment> assignments_;
};

TEST_F(RunningGroup, AllDoneIsToldOnceEveryNodeIsDone) {
  begin(3);
  at(0).group->report_done();
  at(1).group->report_done();
  EXPECT_FALSE(at(0).event_within(milliseconds(300)).has_value());
  at(2).group->report_done();
  for (size_t node = 0; node < 3; ++node) EXPECT_EQ(at(node).event().kind, Kind::kAllDone);
}

TEST_F(RunningGroup, AFailureReachesTheOthersWithItsCause) {
  begin(3);
  const auto began = std::chrono::steady_clock::now();
  at(1).group->report_failure(failure_of("b", 1, "rank 1 died:\n\xff\x1b[31mof this"), false);
  for (const size_t node : {size_t{0}, size_t{2}}) {
    const NodeEvent event = at(node).event();
    EXPECT_EQ(event.kind, Kind::kFailure);
    EXPECT_FALSE(event.restart);
    EXPECT_EQ(event.failure.host, "b");
    EXPECT_EQ(event.failure.launcher_exit_code(), 7);
    EXPECT_TRUE(event.failure.may_restart);
    EXPECT_EQ(event.failure.text, "rank 1 died:\n\xef\xbf\xbd\x1b[31mof this");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(1));
  EXPECT_FALSE(at(1).event_within(milliseconds(200)).has_value());  // it knows
}

TEST_F(RunningGroup, TheFirstOfSeveralFailuresCountsEverywhere) {
  begin(3);
  at(2).group->report_failure(failure_of("c", 2, "first"), false);
  at(1).group->report_failure(failure_of("b", 1, "second"), true);
  const auto heard = at(1).group->next_event();  // without waiting: it is there
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->failure.text, "first");
  EXPECT_FALSE(heard->restart);
  EXPECT_EQ(at(0).event().failure.text, "first");
  EXPECT_FALSE(at(0).event_within(milliseconds(200)).has_value());
}

TEST_F(RunningGroup, ARestartBringsAllTogetherAgainWithAnotherPort) {
  begin(2);
  const int64_t port = assignments_[0].master_port;
  at(0).group->report_failure(failure_of("a", 0, "once"), true);
  EXPECT_TRUE(at(1).event().restart);
  join_all(1);
  EXPECT_NE(assignments_[0].master_port, port);
  EXPECT_EQ(assignments_[0].master_port, assignments_[1].master_port);
  EXPECT_EQ(assignments_[1].node_rank, 1);
  at(0).group->report_done();
  at(1).group->report_done();
  EXPECT_EQ(at(0).event().kind, Kind::kAllDone);
  EXPECT_EQ(at(1).event().kind, Kind::kAllDone);
}

TEST_F(RunningGroup, ANodeThatWasDoneIsRestartedToo) {
  begin(2);
  at(0).group->report_done();
  at(1).group->report_failure(failure_of("b", 1, "late"), true);
  EXPECT_EQ(at(0).event().failure.text, "late");
  join_all(1);
  at(1).group->report_done();
  EXPECT_FALSE(at(0).event_within(milliseconds(300)).has_value());  // its old "done" does not count
  at(0).group->report_done();
  EXPECT_EQ(at(0).event().kind, Kind::kAllDone);
}

TEST_F(RunningGroup, AFailureOfAnAttemptThatIsOverIsIgnored) {
  begin(3);
  at(0).group->report_failure(failure_of("a", 0, "first"), true);
  EXPECT_EQ(at(2).event().failure.text, "first");
  at(0).join(1);
  at(2).join(1);
  at(1).group->report_failure(failure_of("b", 1, "stopped by that"), false);
  EXPECT_EQ(at(1).event().failure.text, "first");
  at(1).join(1);
  for (size_t node = 0; node < 3; ++node) at(node).assignment();
  EXPECT_FALSE(at(0).event_within(milliseconds(200)).has_value());
}

TEST_F(RunningGroup, AStopIsToldToTheOthers) {
  begin(3);
  at(1).group->report_stop(SIGTERM);
  for (const size_t node : {size_t{0}, size_t{2}}) {
    const NodeEvent event = at(node).event();
    EXPECT_EQ(event.kind, Kind::kStop);
    EXPECT_EQ(event.signal, SIGTERM);
    EXPECT_EQ(event.failure.host, "b");
  }
}

TEST_F(RunningGroup, AStopEndsTheWaitForARestart) {
  begin(2);
  at(0).group->report_failure(failure_of("a", 0, "once"), true);
  at(0).join(1);
  at(1).event();
  at(1).group->report_stop(SIGINT);
  EXPECT_FALSE(at(0).joining.get().has_value());
  EXPECT_EQ(at(0).event().kind, Kind::kStop);
}

TEST_F(RunningGroup, ALauncherThatEndsIsLostToAllAtOnce) {
  begin(3);
  launchers_[1].reset();
  for (const size_t node : {size_t{0}, size_t{2}}) {
    const NodeEvent event = at(node).event_within(seconds(1)).value();
    EXPECT_EQ(event.kind, Kind::kNodeLost);
    EXPECT_EQ(event.failure.host, "b");
    EXPECT_EQ(event.failure.launcher_exit_code(), 3);
    EXPECT_THAT(event.failure.text, AllOf(HasSubstr("node 1 (b"), HasSubstr("last heard of at")));
  }
}

TEST_F(RunningGroup, ANodeLostWhileWaitingForARestartEndsTheWait) {
  begin(2);
  at(0).group->report_failure(failure_of("a", 0, "once"), true);
  at(0).join(1);
  at(1).event();
  launchers_[1].reset();
  EXPECT_THAT(at(0).refusal(ExitCode::kEnvironment), HasSubstr("lost node 1"));
}

TEST_F(RunningGroup, TheServersEndIsALossToTheOthers) {
  begin(2);
  launchers_[0].reset();
  const NodeEvent event = at(1).event();
  EXPECT_EQ(event.kind, Kind::kNodeLost);
  EXPECT_EQ(event.failure.launcher_exit_code(), 3);
  EXPECT_THAT(event.failure.text, HasSubstr("node 0"));
}

TEST_F(RunningGroup, TheServingLauncherStaysUntilAllAreTold) {
  begin(3);
  for (size_t node = 0; node < 3; ++node) at(node).group->report_done();
  EXPECT_EQ(at(0).event().kind, Kind::kAllDone);
  launchers_[0].reset();
  EXPECT_EQ(at(1).event().kind, Kind::kAllDone);
  EXPECT_EQ(at(2).event().kind, Kind::kAllDone);
  EXPECT_FALSE(at(2).event_within(milliseconds(300)).has_value());
}

TEST_F(RunningGroup, ALongFailureTextArrivesShortened) {
  begin(2);
  at(1).group->report_failure(failure_of("b", 1, "head" + std::string(3'000'000, '\x01') + "tail"),
                              false);
  const std::string text = at(0).event().failure.text;
  EXPECT_TRUE(text.starts_with("head")) << text.size();
  EXPECT_TRUE(text.ends_with("tail"));
  EXPECT_LT(text.size(), 200'000u);
}

// --- processes ---

// A launcher in a process of its own, so that it can be killed or stopped.
pid_t fork_launcher(const RendezvousOptions& options, const NodeOffer& offer) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const auto group = make_rendezvous_node_group(options);
  group->join(offer, 0, never);
  for (;;) ::pause();
}

class OtherProcess : public ::testing::Test {
 protected:
  void end_by(int signal) { ::kill(child_, signal); }
  void TearDown() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  pid_t child_ = 0;
};

TEST_F(OtherProcess, AKilledLauncherIsLostAtOnce) {
  const auto options = options_at(free_port(), 2);
  child_ = fork_launcher(options, offer_of("b", 1));
  Launcher a(options, offer_of("a", 0));
  a.join().assignment();
  end_by(SIGKILL);
  const NodeEvent event = a.event_within(milliseconds(700)).value();
  EXPECT_EQ(event.kind, Kind::kNodeLost);
  EXPECT_THAT(event.failure.text, HasSubstr("its connection was closed"));
}

TEST_F(OtherProcess, ASilentLauncherIsLostAfterTheTimeGiven) {
  const auto options = options_at(free_port(), 2);
  child_ = fork_launcher(options, offer_of("b", 1));
  Launcher a(options, offer_of("a", 0));
  a.join().assignment();
  end_by(SIGSTOP);
  EXPECT_FALSE(a.event_within(milliseconds(500)).has_value());
  const NodeEvent event = a.event();
  EXPECT_EQ(event.kind, Kind::kNodeLost);
  EXPECT_THAT(event.failure.text,
              AllOf(HasSubstr("node 1 (b"), HasSubstr("nothing was heard of it for 1 s")));
}

TEST_F(OtherProcess, ASilentServerIsLostAfterTheTimeGiven) {
  const auto options = options_at(free_port(), 2);
  child_ = fork_launcher(options, offer_of("a", 0));
  Launcher b(options, offer_of("b", 1));
  b.join().assignment();
  end_by(SIGSTOP);
  const NodeEvent event = b.event();
  EXPECT_EQ(event.kind, Kind::kNodeLost);
  EXPECT_THAT(event.failure.text,
              AllOf(HasSubstr("node 0"), HasSubstr("nothing was heard of it for 1 s")));
}

}  // namespace
}  // namespace trainctl::testing
