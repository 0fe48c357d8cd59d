// An attempt among several nodes, with a made-up group of them and shells as ranks.
#include "launch/attempt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include "launch_fixtures.h"
#include "rendezvous_fixtures.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LogCapture;

class FakeNodes : public NodeGroup {
 public:
  ~FakeNodes() override { ::close(fd_); }
  std::optional<NodeAssignment> join(const NodeOffer&, int64_t, bool (*)()) override { return {}; }
  void report_failure(const WorkerFailure& failure, bool restart) override {
    failures.push_back(failure);
    restarts.push_back(restart);
    if (verdict) say(*verdict);
  }
  void report_done() override {
    ++done;
    if (after_done) say(*after_done);
  }
  void report_stop(int signal_number) override { stops.push_back(signal_number); }
  int event_fd() const override { return fd_; }
  std::optional<NodeEvent> next_event() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (events_.empty() || std::chrono::steady_clock::now() < silent_until) return std::nullopt;
    NodeEvent event = events_.front();
    events_.pop_front();
    uint64_t count = 0;
    if (events_.empty() && ::read(fd_, &count, sizeof count) < 0) return event;
    return event;
  }
  void say(const NodeEvent& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(event);
    const uint64_t one = 1;
    EXPECT_EQ(::write(fd_, &one, sizeof one), 8);
  }

  std::vector<WorkerFailure> failures;
  std::vector<bool> restarts;
  std::vector<int> stops;
  int done = 0;
  std::chrono::steady_clock::time_point silent_until;
  std::optional<NodeEvent> verdict, after_done;

 private:
  int fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::mutex mutex_;
  std::deque<NodeEvent> events_;
};

NodeEvent event_of(NodeEvent::Kind kind, int signal_number = 0) {
  NodeEvent event;
  event.kind = kind;
  event.signal = signal_number;
  if (kind == NodeEvent::Kind::kFailure) {
    event.failure.host = "other";
    event.failure.rank = 0;
    event.failure.exit_code = 9;
    event.failure.text = "rank 0 on other ended with exit code 9";
  }
  return event;
}

class AttemptAmongNodes : public ::testing::Test {
 protected:
  AttemptResult run(const std::vector<std::string>& scripts, bool last = true) {
    AttemptPlan plan;
    plan.node.node_rank = 1;
    plan.node.node_count = 2;
    plan.node.first_rank = 4;
    plan.node.world_size = 8;
    plan.host = "here";
    plan.program = "sh";
    plan.last = last;
    plan.grace_period = grace_period_;
    plan.is_slurm_job = is_slurm_job_;
    for (const std::string& script : scripts) {
      RankPlan rank;
      rank.command.path = "/bin/sh";
      rank.command.argv = {"sh", "-c", script};
      rank.out.on_screen = rank.error.on_screen = false;
      plan.ranks.push_back(rank);
    }
    Console console;
    return Attempt(plan, &nodes_, &console, &signals_).run();
  }
  LaunchSignals signals_;
  FakeNodes nodes_;
  double grace_period_ = 20;
  bool is_slurm_job_ = false;
};

TEST_F(AttemptAmongNodes, IsDoneWhenAllNodesAre) {
  nodes_.after_done = event_of(NodeEvent::Kind::kAllDone);
  const AttemptResult result = run({"true", "true"});
  EXPECT_TRUE(result.all_well);
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(nodes_.done, 1);
}

TEST_F(AttemptAmongNodes, AFailureHereIsReportedToTheOthersWithTheGlobalRank) {
  const AttemptResult result = run({"sleep 100", "echo words; exit 7"}, /*last=*/false);
  ASSERT_EQ(nodes_.failures.size(), 1u);
  EXPECT_EQ(nodes_.failures[0].rank, 5);
  EXPECT_THAT(nodes_.failures[0].text, HasSubstr("rank 5 on here ended with exit code 7"));
  EXPECT_THAT(nodes_.failures[0].text, HasSubstr("words"));
  EXPECT_TRUE(nodes_.restarts[0]);
  EXPECT_TRUE(result.restart);
  EXPECT_EQ(result.failure->launcher_exit_code(), 7);
  EXPECT_EQ(nodes_.done, 0);
}

TEST_F(AttemptAmongNodes, AFailureElsewhereStopsTheRanksAndIsTheOneTold) {
  nodes_.say(event_of(NodeEvent::Kind::kFailure));
  const AttemptResult result = run({"sleep 100", "sleep 100"});
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->host, "other");
  EXPECT_EQ(result.failure->launcher_exit_code(), 9);
  EXPECT_FALSE(result.restart);
  EXPECT_TRUE(nodes_.failures.empty());
}

TEST_F(AttemptAmongNodes, WhatTheNodesAgreeOnReplacesTheFailureSeenHere) {
  NodeEvent event = event_of(NodeEvent::Kind::kFailure);
  event.restart = true;
  nodes_.verdict = event;
  const AttemptResult result = run({"exit 1", "sleep 100"});
  EXPECT_EQ(result.failure->host, "other");
  EXPECT_TRUE(result.restart);
}

TEST_F(AttemptAmongNodes, AStopElsewhereIsOneHere) {
  nodes_.say(event_of(NodeEvent::Kind::kStop, SIGINT));
  const AttemptResult result = run({"trap 'exit 75' INT; while :; do sleep 0.05; done"});
  EXPECT_EQ(result.stop_signal, SIGINT);
  EXPECT_TRUE(nodes_.stops.empty());
}

// A rank that says when it is ready, and needs a second to end by a stop request.
std::string slow_to_end(const std::string& ready) {
  return "trap 'sleep 1; exit 75' TERM; : > " + ready + "; while :; do sleep 0.02; done";
}

// Signals this process so long after `ready` exists.
std::thread signals_after(const fs::path& ready, std::vector<std::chrono::milliseconds> pauses) {
  return std::thread([ready, pauses] {
    while (!fs::exists(ready)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const auto pause : pauses) {
      std::this_thread::sleep_for(pause);
      ::kill(::getpid(), SIGTERM);
    }
  });
}

TEST_F(AttemptAmongNodes, TheFirstSignalHereAfterAStopElsewhereJoinsItAndTheSecondKills) {
  using std::chrono::milliseconds;
  for (const bool insists : {false, true}) {
    LogCapture log;
    const TemporaryFolder folder;
    const fs::path ready = folder.path() / "ready";
    std::thread sender =
        signals_after(ready, insists ? std::vector{milliseconds(300), milliseconds(250)}
                                     : std::vector{milliseconds(300)});
    std::thread other([&] {
      while (!fs::exists(ready)) std::this_thread::sleep_for(milliseconds(5));
      nodes_.say(event_of(NodeEvent::Kind::kStop, SIGTERM));
    });
    const AttemptResult result = run({slow_to_end(ready.string())});
    sender.join();
    other.join();
    EXPECT_EQ(result.stop_signal, SIGTERM);
    EXPECT_EQ(result.checkpointed, !insists);
    EXPECT_EQ(log.text().find("second SIGTERM: all ranks are killed at once, without a checkpoint "
                              "of this stop") != std::string::npos,
              insists);
  }
}

TEST_F(AttemptAmongNodes, InASlurmJobTermComesTwiceWithoutHurry) {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  is_slurm_job_ = true;
  const fs::path ready = folder.path() / "ready";
  std::thread sender = signals_after(ready, {milliseconds(10), milliseconds(300)});
  const AttemptResult result = run({slow_to_end(ready.string())});
  sender.join();
  EXPECT_TRUE(result.checkpointed);
}

TEST_F(AttemptAmongNodes, ASignalHereIsReportedAndForwarded) {
  ::kill(::getpid(), SIGTERM);  // read from the signal descriptor
  const AttemptResult result = run({"sleep 100", "sleep 100"});
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_FALSE(result.all_well);
  EXPECT_EQ(nodes_.stops, std::vector<int>{SIGTERM});
  EXPECT_FALSE(result.failure);
}

TEST_F(AttemptAmongNodes, RanksThatHadToBeKilledAreNamedInOutputAndReport) {
  LogCapture log;
  grace_period_ = 1.5;
  const AttemptResult result =
      run({"trap '' TERM; while :; do sleep 0.1; done", "sleep 0.3; exit 7", "sleep 100"});
  const std::string killed =
      "rank 4 had not ended 1.5s after SIGTERM (--grace-period) and was killed";
  EXPECT_THAT(log.text(), AllOf(HasSubstr("a rank has failed; rank 4 has up to 1.5s to end"),
                                HasSubstr(killed)));
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->text,
              AllOf(HasSubstr("exit code 7"), HasSubstr("then       " + killed)));
}

TEST_F(AttemptAmongNodes, ALostNodeIsNotCalledARank) {
  LogCapture log;
  NodeEvent event = event_of(NodeEvent::Kind::kNodeLost);
  event.failure.exit_code = 3;
  event.failure.text = "lost node 1 (other)";
  nodes_.say(event);
  // Until the shells have set their traps.
  nodes_.silent_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  run({"trap 'sleep 1.2; exit' TERM; while :; do sleep 0.05; done",
       "trap 'sleep 1.2; exit' TERM; while :; do sleep 0.05; done"});
  EXPECT_THAT(log.text(), AllOf(HasSubstr("lost node 1 (other); the ranks here are ended"),
                                HasSubstr("a node is lost; ranks 4, 5 have up to 5.0s to end\n")));
}

TEST_F(AttemptAmongNodes, AFailureElsewhereAfterTheEndHereStillCounts) {
  nodes_.after_done = event_of(NodeEvent::Kind::kFailure);
  const AttemptResult result = run({"true"});
  EXPECT_EQ(nodes_.done, 1);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->launcher_exit_code(), 9);
}

TEST_F(AttemptAmongNodes, AStopWhileWaitingForTheOthersIsNoSuccess) {
  nodes_.after_done = event_of(NodeEvent::Kind::kStop, SIGTERM);
  const AttemptResult result = run({"true"});
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_FALSE(result.all_well);
}

}  // namespace
}  // namespace trainctl
