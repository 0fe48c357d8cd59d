// Launchers of one run as threads of the test, and what they are asked for.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "launch/sockets.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/launch/node_group.h"

namespace trainctl::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

inline bool never() { return false; }

inline int64_t free_port() {
  const Descriptor fd = listen_on_any(0);
  return bound_port(fd.get());
}

inline RendezvousOptions options_at(int64_t port, int64_t node_count) {
  RendezvousOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.node_count = node_count;
  options.run_id = "test";
  options.join_timeout = seconds(20);
  options.heartbeat = milliseconds(100);
  options.lost_after = milliseconds(1000);
  return options;
}

inline NodeOffer offer_of(const std::string& host, std::optional<int64_t> rank = {},
                          int64_t local = 1) {
  NodeOffer offer;
  offer.host = host;
  offer.node_rank = rank;
  offer.local_world_size = local;
  return offer;
}

// One launcher; its join runs beside the test.
struct Launcher {
  std::unique_ptr<NodeGroup> group;
  NodeOffer offer;
  std::future<std::optional<NodeAssignment>> joining;

  Launcher(const RendezvousOptions& options, NodeOffer brought)
      : group(make_rendezvous_node_group(options)), offer(std::move(brought)) {}

  Launcher& join(int64_t attempt = 0) {
    joining = std::async(std::launch::async,
                         [this, attempt] { return group->join(offer, attempt, never); });
    return *this;
  }
  NodeAssignment assignment() { return joining.get().value(); }

  // The message of the UserError that join ends with.
  std::string refusal(ExitCode code) {
    try {
      joining.get();
    } catch (const UserError& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
      return error.what();
    }
    return "no refusal";
  }

  std::optional<NodeEvent> event_within(milliseconds time) {
    const SteadyTime end = std::chrono::steady_clock::now() + time;
    do {
      if (auto event = group->next_event()) return event;
      pollfd entry = {group->event_fd(), POLLIN, 0};
      ::poll(&entry, 1, 20);
    } while (std::chrono::steady_clock::now() < end);
    return std::nullopt;
  }
  NodeEvent event() { return event_within(seconds(5)).value(); }
};

// What is logged while it lives.
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel, const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      text_ += line + "\n";
    });
  }
  ~LogCapture() { set_log_sink(nullptr); }
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

inline WorkerFailure failure_of(const std::string& host, int64_t rank, const std::string& text) {
  WorkerFailure failure;
  failure.host = host;
  failure.rank = rank;
  failure.exit_code = 7;
  failure.text = text;
  failure.may_restart = true;
  return failure;
}

}  // namespace trainctl::testing
