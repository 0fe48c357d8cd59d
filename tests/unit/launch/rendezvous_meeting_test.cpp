// How launchers find each other, and what keeps them from beginning.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launch/wire.h"
#include "rendezvous_fixtures.h"

namespace trainctl::testing {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Rendezvous, NodesGetRanksByNodeOrderWithDifferentLocalSizes) {
  const auto options = options_at(free_port(), 3);
  Launcher last(options, offer_of("c", 2, 4)), middle(options, offer_of("b", 1, 1)),
      first(options, offer_of("a", 0, 2));
  last.join();
  middle.join();
  first.join();
  const NodeAssignment a = first.assignment(), b = middle.assignment(), c = last.assignment();
  EXPECT_EQ(a.first_rank, 0);
  EXPECT_EQ(b.first_rank, 2);
  EXPECT_EQ(c.first_rank, 3);
  for (const auto& assignment : {a, b, c}) {
    EXPECT_EQ(assignment.world_size, 7);
    EXPECT_EQ(assignment.node_count, 3);
    EXPECT_EQ(assignment.master_addr, "127.0.0.1");
    EXPECT_EQ(assignment.master_port, a.master_port);
    EXPECT_EQ(assignment.run_id, "test");
  }
  EXPECT_EQ(b.node_rank, 1);
  EXPECT_EQ(c.node_rank, 2);
}

TEST(Rendezvous, RanksLeftOutAreAssignedAndTheServingOneIsNodeZero) {
  const auto options = options_at(free_port(), 4);
  std::vector<std::unique_ptr<Launcher>> launchers;
  for (const char* host : {"a", "b", "c", "d"}) {
    const bool numbered = *host == 'd';
    launchers.push_back(std::make_unique<Launcher>(
        options, offer_of(host, numbered ? std::optional<int64_t>(1) : std::nullopt)));
    launchers.back()->join();
    std::this_thread::sleep_for(milliseconds(100));
  }
  std::vector<int64_t> ranks;
  for (auto& launcher : launchers) ranks.push_back(launcher->assignment().node_rank);
  EXPECT_EQ(ranks, (std::vector<int64_t>{0, 2, 3, 1}));
}

TEST(Rendezvous, LaunchersThatStartTogetherOnOneMachineAgreeWhoServes) {
  for (int round = 0; round < 5; ++round) {
    const auto options = options_at(free_port(), 4);
    std::vector<std::unique_ptr<Launcher>> launchers;
    for (const char* host : {"a", "b", "c", "d"}) {
      launchers.push_back(std::make_unique<Launcher>(options, offer_of(host)));
    }
    for (auto& launcher : launchers) launcher->join();
    std::set<int64_t> ranks;
    for (auto& launcher : launchers) ranks.insert(launcher->assignment().node_rank);
    EXPECT_EQ(ranks, (std::set<int64_t>{0, 1, 2, 3}));
  }
}

TEST(Rendezvous, MeetsOverIPv6) {
  auto options = options_at(free_port(), 2);
  options.host = "::1";
  Launcher a(options, offer_of("a", 0)), b(options, offer_of("b", 1));
  a.join();
  b.join();
  EXPECT_EQ(b.assignment().master_addr, "::1");
  EXPECT_EQ(a.assignment().node_rank, 0);
}

TEST(Rendezvous, ClientsWaitForANodeZeroThatStartsLater) {
  LogCapture log;
  const auto options = options_at(free_port(), 2);
  Launcher b(options, offer_of("b", 1));
  b.join();
  std::this_thread::sleep_for(milliseconds(400));
  Launcher a(options, offer_of("a", 0));
  a.join();
  EXPECT_EQ(a.assignment().node_rank, 0);
  EXPECT_EQ(b.assignment().node_rank, 1);
  EXPECT_THAT(log.text(), HasSubstr("Connection refused"));
}

// A launcher that is stopped while it waits, as by Ctrl-C.
class StoppedWhileWaiting {
 public:
  StoppedWhileWaiting(const RendezvousOptions& options, const NodeOffer& offer)
      : group_(make_rendezvous_node_group(options)) {
    stop_ = false;
    waiting_ = std::async(std::launch::async, [this, offer] {
      return group_->join(offer, 0, [] { return stop_.load(); });
    });
  }
  void stop() {
    stop_ = true;
    EXPECT_FALSE(waiting_.get().has_value());
    group_.reset();
  }

 private:
  static inline std::atomic<bool> stop_ = false;
  std::unique_ptr<NodeGroup> group_;
  std::future<std::optional<NodeAssignment>> waiting_;
};

TEST(Rendezvous, AServingLauncherThatGivesUpIsReplacedByTheNext) {
  const auto options = options_at(free_port(), 3);
  StoppedWhileWaiting first(options, offer_of("a", 0));
  Launcher b(options, offer_of("b", 1)), c(options, offer_of("c", 2));
  b.join();
  std::this_thread::sleep_for(milliseconds(300));
  const auto began = Clock::now();
  first.stop();
  EXPECT_LT(Clock::now() - began, milliseconds(500));  // it does not wait for the others to leave
  Launcher again(options, offer_of("a", 0));
  again.join();
  c.join();
  EXPECT_EQ(again.assignment().node_rank, 0);
  EXPECT_EQ(b.assignment().node_rank, 1);
  c.assignment();
}

TEST(Rendezvous, ALauncherThatLeavesWhileWaitingMayComeAgain) {
  LogCapture log;
  const auto options = options_at(free_port(), 3);
  Launcher a(options, offer_of("a", 0)), c(options, offer_of("c", 2));
  a.join();
  StoppedWhileWaiting first(options, offer_of("b", 1));
  std::this_thread::sleep_for(milliseconds(300));
  first.stop();
  Launcher b(options, offer_of("b", 1));
  b.join();
  std::this_thread::sleep_for(milliseconds(200));
  c.join();
  EXPECT_EQ(b.assignment().node_rank, 1);
  EXPECT_EQ(a.assignment().node_rank, 0);
  c.assignment();
  EXPECT_THAT(log.text(), HasSubstr("node 1 (b at 127.0.0.1) has gone while waiting"));
}

// --- what is refused ---

TEST(Rendezvous, DifferentConfigsAreRefusedOnAllNodesWithBothValuesAndHosts) {
  const auto options = options_at(free_port(), 3);
  Launcher a(options, offer_of("hostA", 0)), b(options, offer_of("hostB", 1));
  a.offer.agree = {{"config", "111"}, {"build", "x"}};
  b.offer.agree = {{"config", "222"}, {"build", "x"}};
  a.join();
  b.join();
  for (Launcher* launcher : {&a, &b}) {
    EXPECT_THAT(launcher->refusal(ExitCode::kUsage),
                AllOf(HasSubstr("config"), HasSubstr("111 on hostA"), HasSubstr("222 on hostB"),
                      HasSubstr("nothing was started")));
  }
}

TEST(Rendezvous, AValueOnlyOneNodeHasIsADifference) {
  const auto options = options_at(free_port(), 2);
  Launcher a(options, offer_of("hostA", 0)), b(options, offer_of("hostB", 1));
  b.offer.agree = {{"config", "222"}};
  a.join();
  b.join();
  EXPECT_THAT(a.refusal(ExitCode::kUsage), HasSubstr("(not given) on hostA"));
  EXPECT_THAT(b.refusal(ExitCode::kUsage), HasSubstr("222 on hostB"));
}

TEST(Rendezvous, DifferentNodeCountsAreRefusedOnAllNodes) {
  const int64_t port = free_port();
  Launcher a(options_at(port, 2), offer_of("hostA", 0)),
      b(options_at(port, 4), offer_of("hostB", 1));
  a.join();
  b.join();
  for (Launcher* launcher : {&a, &b}) {
    EXPECT_THAT(launcher->refusal(ExitCode::kUsage),
                AllOf(HasSubstr("--nnodes"), HasSubstr("2 on hostA"), HasSubstr("4 on hostB")));
  }
}

TEST(Rendezvous, ANodeRankGivenTwiceIsRefusedAndTheRunGoesOn) {
  const auto options = options_at(free_port(), 3);
  Launcher a(options, offer_of("a", 0)), b(options, offer_of("b", 1)),
      twin(options, offer_of("twin", 1));
  a.join();
  b.join();
  std::this_thread::sleep_for(milliseconds(300));
  twin.join();
  EXPECT_THAT(twin.refusal(ExitCode::kUsage),
              AllOf(HasSubstr("--node-rank 1 is given twice"), HasSubstr("(b at 127.0.0.1)")));
  Launcher c(options, offer_of("c", 2));
  c.join();
  EXPECT_EQ(c.assignment().node_rank, 2);
  EXPECT_EQ(a.assignment().world_size, 3);
  EXPECT_EQ(b.assignment().node_rank, 1);
}

TEST(Rendezvous, ARankBeyondTheNodesIsRefused) {
  const auto options = options_at(free_port(), 2);
  Launcher a(options, offer_of("a", 0)), far(options, offer_of("far", 5)),
      b(options, offer_of("b", 1));
  a.join();
  far.join();
  EXPECT_THAT(far.refusal(ExitCode::kUsage),
              HasSubstr("--node-rank 5 is beyond the last of 2 nodes"));
  b.join();
  EXPECT_EQ(b.assignment().node_rank, 1);
  a.assignment();
}

TEST(Rendezvous, MoreLaunchersThanNodesAreRefused) {
  const auto options = options_at(free_port(), 2);
  Launcher a(options, offer_of("a", 0)), b(options, offer_of("b", 1)), c(options, offer_of("c", 1));
  a.join();
  b.join();
  a.assignment();
  b.assignment();
  c.join();
  EXPECT_THAT(c.refusal(ExitCode::kUsage), HasSubstr("one too many"));
}

TEST(Rendezvous, AStrangersRunIdIsRefusedAndLoggedOnce) {
  LogCapture log;
  const auto options = options_at(free_port(), 2);
  auto other = options;
  other.run_id = "other";
  Launcher a(options, offer_of("a", 0));
  a.join();
  for (int i = 0; i < 3; ++i) {
    Launcher stranger(other, offer_of("stranger", 1));
    stranger.join();
    EXPECT_THAT(stranger.refusal(ExitCode::kUsage),
                AllOf(HasSubstr("--rdzv-id"), HasSubstr("another run")));
  }
  Launcher b(options, offer_of("b", 1));
  b.join();
  b.assignment();
  a.assignment();
  const std::string text = log.text();
  const size_t first = text.find("belongs to another run");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("belongs to another run", first + 1), std::string::npos) << text;
}

TEST(Rendezvous, TheTimeOutNamesWhoIsMissing) {
  auto options = options_at(free_port(), 4);
  options.join_timeout = milliseconds(700);
  Launcher a(options, offer_of("hostA", 0)), c(options, offer_of("hostC", 2));
  a.join();
  c.join();
  for (Launcher* launcher : {&a, &c}) {
    EXPECT_THAT(launcher->refusal(ExitCode::kEnvironment),
                AllOf(HasSubstr("not all 4 nodes"), HasSubstr("missing: node 1, node 3"),
                      HasSubstr("node 0 (hostA)"), HasSubstr("node 2 (hostC at 127.0.0.1)")));
  }
}

TEST(Rendezvous, AClientAloneTimesOutWithTheReason) {
  auto options = options_at(free_port(), 2);
  options.join_timeout = milliseconds(500);
  Launcher b(options, offer_of("b", 1));
  b.join();
  EXPECT_THAT(b.refusal(ExitCode::kEnvironment),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(options.port)),
                    HasSubstr("Connection refused")));
}

TEST(Rendezvous, WithoutANodeZeroTheWaitingLineSaysWhoHosts) {
  LogCapture log;
  auto options = options_at(free_port(), 2);
  options.join_timeout = milliseconds(500);
  Launcher a(options, offer_of("a", 1)), b(options, offer_of("b", 1));
  a.join();
  b.join();
  const std::string who = "node 0 hosts the meeting, and this is node 1 (--node-rank)";
  EXPECT_THAT(a.refusal(ExitCode::kEnvironment), HasSubstr(who));
  EXPECT_THAT(b.refusal(ExitCode::kEnvironment), HasSubstr(who));
  EXPECT_THAT(log.text(), HasSubstr("(Connection refused); " + who));
}

// As Python's http.server, which answers nothing before a line has ended.
TEST(Rendezvous, AWebServerThatWaitsForALineIsNamedAtOnce) {
  const Descriptor other = listen_on_any(0);
  std::atomic<bool> stop = false;
  std::thread web_server([&] {
    std::vector<Descriptor> callers;
    while (!stop) {
      Accepted accepted = accept_from(other.get());
      if (accepted.fd.open()) callers.push_back(std::move(accepted.fd));
      for (const Descriptor& caller : callers) {
        char bytes[4096];
        const ssize_t got = ::recv(caller.get(), bytes, sizeof bytes, 0);
        const std::string reply = "<!DOCTYPE HTML>\n<html>400</html>";
        if (got > 0 &&
            std::string_view(bytes, static_cast<size_t>(got)).find('\n') != std::string_view::npos)
          ::send(caller.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  auto options = options_at(bound_port(other.get()), 2);
  options.lost_after = seconds(10);
  const auto began = Clock::now();
  Launcher launcher(options, offer_of("a", 1));
  launcher.join();
  EXPECT_THAT(launcher.refusal(ExitCode::kEnvironment), HasSubstr("an HTTP answer came"));
  EXPECT_LT(Clock::now() - began, seconds(5));
  stop = true;
  web_server.join();
}

TEST(Rendezvous, ALocalAddressOfNodeZeroIsWhereTheRanksReachIt) {
  auto options = options_at(free_port(), 2);
  options.local_addr = "127.0.0.2";
  Launcher a(options, offer_of("a", 0));
  options.local_addr = "127.0.0.3";
  Launcher b(options, offer_of("b", 1));
  a.join();
  b.join();
  EXPECT_EQ(a.assignment().master_addr, "127.0.0.2");
  EXPECT_EQ(b.assignment().master_addr, "127.0.0.2");
}

TEST(Rendezvous, ANameThatDoesNotResolveIsRefusedInSeconds) {
  auto options = options_at(29400, 2);
  options.host = "no-such-host.invalid";
  for (const int64_t rank : {0, 1}) {
    const auto began = Clock::now();
    Launcher launcher(options, offer_of("a", rank));
    launcher.join();
    EXPECT_THAT(launcher.refusal(ExitCode::kEnvironment), HasSubstr("'no-such-host.invalid'"));
    EXPECT_LT(Clock::now() - began, seconds(8));
  }
}

TEST(Rendezvous, ABusyPortIsRefusedOnNodeZero) {
  const Descriptor other = listen_on_any(0);
  const auto options = options_at(bound_port(other.get()), 2);
  Launcher a(options, offer_of("a", 0));
  a.join();
  EXPECT_THAT(a.refusal(ExitCode::kEnvironment),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(options.port)),
                    HasSubstr("Address already in use")));
}

TEST(Rendezvous, ABusyMasterPortIsRefusedBeforeAnybodyComes) {
  const Descriptor other = listen_on_any(0);
  auto options = options_at(free_port(), 2);
  options.master_port = bound_port(other.get());
  Launcher a(options, offer_of("a", 0));
  a.join();
  EXPECT_THAT(a.refusal(ExitCode::kEnvironment),
              HasSubstr("port " + std::to_string(options.master_port)));
}

TEST(Rendezvous, AnotherProgramOnThePortIsNamedInSeconds) {
  const Descriptor other = listen_on_any(0);
  std::atomic<bool> stop = false;
  std::thread web_server([&] {
    const std::string reply = "HTTP/1.1 400 Bad Request\r\n\r\n";
    while (!stop) {
      Accepted accepted = accept_from(other.get());
      if (accepted.fd.open()) ::send(accepted.fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  const auto options = options_at(bound_port(other.get()), 2);
  for (const auto rank : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    Launcher launcher(options, offer_of("a", rank));
    launcher.join();
    EXPECT_THAT(launcher.refusal(ExitCode::kEnvironment),
                AllOf(HasSubstr("is no trainctl launcher"),
                      HasSubstr("an HTTP answer came ('HTTP/1.1 400 Bad Request')")));
  }
  stop = true;
  web_server.join();
}

// --- strangers ---

Descriptor call(int64_t port) {
  std::string problem;
  const auto found = resolve("127.0.0.1", port, seconds(1), never);
  return connect_to(found.addresses.at(0), seconds(2), never, &problem);
}

void say(const Descriptor& fd, const std::string& text) {
  ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

bool closed_within(const Descriptor& fd, milliseconds time) {
  pollfd entry = {fd.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&entry, 1, static_cast<int>(time.count())) == 1 &&
         ::recv(fd.get(), &byte, 1, 0) <= 0;
}

TEST(Rendezvous, GarbageAndPortScannersDisturbNothing) {
  LogCapture log;
  const auto options = options_at(free_port(), 2);
  Launcher a(options, offer_of("a", 0));
  a.join();
  std::this_thread::sleep_for(milliseconds(300));
  const Descriptor http = call(options.port), huge = call(options.port), deep = call(options.port);
  call(options.port).reset();
  say(http, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  say(huge, std::string("\x7f\xff\xff\xff", 4));
  say(deep, std::string("\x00\x00\xea\x60", 4) + std::string(60000, '['));
  EXPECT_TRUE(closed_within(http, seconds(2)));
  EXPECT_TRUE(closed_within(huge, seconds(2)));
  EXPECT_TRUE(closed_within(deep, seconds(2)));
  Message early;  // a launcher's message, but no greeting
  early.kind = MessageKind::kDone;
  const Descriptor rude = call(options.port);
  say(rude, encode(early));
  EXPECT_TRUE(closed_within(rude, seconds(2)));
  Launcher b(options, offer_of("b", 1));
  b.join();
  EXPECT_EQ(b.assignment().node_rank, 1);
  EXPECT_EQ(a.assignment().node_rank, 0);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("refused a connection from 127.0.0.1"),
                                HasSubstr("an HTTP request came ('GET / HTTP/1.1')")));
}

TEST(Rendezvous, HalfOpenConnectionsAreClosedAndDoNotCrowdOutLaunchers) {
  const auto options = options_at(free_port(), 2);
  Launcher a(options, offer_of("a", 0));
  a.join();
  std::this_thread::sleep_for(milliseconds(300));
  std::vector<Descriptor> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(call(options.port));
  Launcher b(options, offer_of("b", 1));
  b.join();
  EXPECT_EQ(b.assignment().node_rank, 1);
  EXPECT_TRUE(closed_within(idle.front(), seconds(1)));  // more than there is room for
  EXPECT_TRUE(closed_within(idle.back(), seconds(8)));   // silent for too long
}

TEST(Rendezvous, OneHundredTwentyEightLaunchersMeetWithinFiveSeconds) {
  constexpr int64_t kLaunchers = 128;
  auto options = options_at(free_port(), kLaunchers);
  options.heartbeat = seconds(1);
  options.lost_after = seconds(10);
  std::vector<std::unique_ptr<Launcher>> launchers;
  for (int64_t i = 0; i < kLaunchers; ++i) {
    launchers.push_back(std::make_unique<Launcher>(options, offer_of("host" + std::to_string(i))));
  }
  const auto began = Clock::now();
  for (auto& launcher : launchers) launcher->join();
  std::set<int64_t> ranks;
  for (auto& launcher : launchers) ranks.insert(launcher->assignment().node_rank);
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  EXPECT_EQ(ranks.size(), static_cast<size_t>(kLaunchers));
  EXPECT_LT(took, seconds(5));
  RecordProperty("milliseconds", static_cast<int>(took.count()));
  for (auto& launcher : launchers) launcher->group->report_done();
  for (auto& launcher : launchers) EXPECT_EQ(launcher->event().kind, NodeEvent::Kind::kAllDone);
}

}  // namespace
}  // namespace trainctl::testing
