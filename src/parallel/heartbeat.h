// Every rank tells the store once a second where it is, so that a rank that waits in vain can say
// for whom.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace trainctl {

// What one rank is doing; `enter` and `join` are called by its training thread.
class Progress {
 public:
  struct Snapshot {
    int64_t step = 0;
    const char* doing = "start";
    int64_t joined = 0;  // operations of all ranks that this one has come to
    double since = 0;    // of `doing`, seconds since 1970
  };

  Progress();
  void enter(int64_t step, const char* doing);
  void join(const char* doing);  // the next operation of all ranks
  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  Snapshot state_;
};

double seconds_since_1970();

// What the store knows of a rank.
struct RankState {
  int64_t rank = 0;
  std::string who;  // "host7, process 4711"; empty: nothing is known
  int64_t step = 0;
  std::string doing;
  int64_t joined = 0;
  double since = 0, beat = 0;  // seconds since 1970; beat: the last sign of life
};

// An error that ended a rank, as it told the others.
struct PeerError {
  int64_t rank = 0;
  int exit_code = 1;
  std::string text;
};

void post_error(c10d::Store& store, const PeerError& error);  // the first one stays
std::optional<PeerError> read_error(c10d::Store& store);
std::vector<RankState> read_ranks(c10d::Store& store, int64_t world_size);

class Heartbeat {
 public:
  // `store` is a connection of its own. `on_error` is called once, on the heartbeat's thread, when
  // another rank has posted an error.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int64_t rank, const Progress& progress,
            std::function<void(const PeerError&)> on_error);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  bool beat();  // false when the store has gone

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_;
  const Progress& progress_;
  std::function<void(const PeerError&)> on_error_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainctl
