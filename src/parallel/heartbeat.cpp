#include "parallel/heartbeat.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "parallel/meeting.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kInterval{1};
constexpr const char* kErrorKey = "error";

std::string beat_key(int64_t rank) { return "beat/" + std::to_string(rank); }

}  // namespace

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Progress::Progress() { state_.since = seconds_since_1970(); }

void Progress::enter(int64_t step, const char* doing) {
  const std::lock_guard guard(mutex_);
  state_.step = step;
  state_.doing = doing;
  state_.since = seconds_since_1970();
}

void Progress::join(const char* doing) {
  const std::lock_guard guard(mutex_);
  ++state_.joined;
  state_.doing = doing;
  state_.since = seconds_since_1970();
}

Progress::Snapshot Progress::snapshot() const {
  const std::lock_guard guard(mutex_);
  return state_;
}

void post_error(c10d::Store& store, const PeerError& error) {
  const Json json = {{"rank", error.rank}, {"code", error.exit_code}, {"text", error.text}};
  store.compareSet(kErrorKey, std::string(), json.dump());
}

std::optional<PeerError> read_error(c10d::Store& store) {
  if (!store.check({kErrorKey})) return std::nullopt;
  const Json json = Json::parse(store.get_to_str(kErrorKey));
  return PeerError{json.at("rank").get<int64_t>(), json.at("code").get<int>(),
                   json.at("text").get<std::string>()};
}

std::vector<RankState> read_ranks(c10d::Store& store, int64_t world_size) {
  std::vector<RankState> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    RankState state;
    state.rank = rank;
    if (store.check({beat_key(rank)})) {
      const Json json = Json::parse(store.get_to_str(beat_key(rank)));
      state.who = introduction_of(store, rank);
      state.step = json.at("step").get<int64_t>();
      state.doing = json.at("doing").get<std::string>();
      state.joined = json.at("joined").get<int64_t>();
      state.since = json.at("since").get<double>();
      state.beat = json.at("beat").get<double>();
    }
    ranks.push_back(std::move(state));
  }
  return ranks;
}

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int64_t rank, const Progress& progress,
                     std::function<void(const PeerError&)> on_error)
    : store_(std::move(store)),
      rank_(rank),
      progress_(progress),
      on_error_(std::move(on_error)),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeat::run() {
  while (beat()) {
    std::unique_lock guard(mutex_);
    if (wake_.wait_for(guard, kInterval, [this] { return stopping_; })) return;
  }
}

bool Heartbeat::beat() {
  try {
    const Progress::Snapshot now = progress_.snapshot();
    const Json json = {{"step", now.step},
                       {"doing", now.doing},
                       {"joined", now.joined},
                       {"since", now.since},
                       {"beat", seconds_since_1970()}};
    store_->set(beat_key(rank_), json.dump());
    const std::optional<PeerError> error = read_error(*store_);
    if (!error || error->rank == rank_) return true;
    on_error_(*error);
  } catch (const std::exception& error) {
    // Rank 0, which serves the store, ends first or last; the training thread notices by itself.
    log_debug(std::string("no heartbeat any more: ") + error.what());
  }
  return false;
}

}  // namespace trainctl
