// Threads that work ahead of their consumer without changing what it sees. No tensor library here,
// so that the thread sanitizer can see all of it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace trainctl {

// Jobs are drawn one after the other from `next_job` (under the lock, so it needs no other), run by
// any worker, and their results handed out in the order of drawing, at most `depth` of them ahead.
// An exception of a job takes its result's place and is thrown again by every later next(), so that
// no batch is skipped in silence.
template <typename Job, typename Result>
class PrefetchQueue {
 public:
  PrefetchQueue(int64_t workers, int64_t depth, std::function<Job()> next_job,
                std::function<Result(const Job&)> run)
      : next_job_(std::move(next_job)),
        run_(std::move(run)),
        slots_(static_cast<size_t>(std::max<int64_t>(depth, 1))) {
    try {
      for (int64_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // a thread limit: those already running must end before they lose this object
      stop();
      throw;
    }
  }
  ~PrefetchQueue() { stop(); }
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  Result next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    result_ready_.wait(lock, [&] { return slot.ready; });
    if (slot.error) std::rethrow_exception(slot.error);
    Result result = std::move(*slot.result);
    slot = Slot{};
    ++taken_;
    // Waking a thread costs microseconds, a small model's step not much more: wake them for half a
    // queue at once.
    const bool wake = issued_ - taken_ <= slots_.size() / 2;
    lock.unlock();
    if (wake) room_.notify_all();
    return result;
  }

 private:
  struct Slot {
    std::optional<Result> result;
    std::exception_ptr error;
    bool ready = false;
  };

  Slot& slot_of(uint64_t ticket) { return slots_[ticket % slots_.size()]; }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return stopping_ || issued_ - taken_ < slots_.size(); });
      if (stopping_) return;
      const uint64_t ticket = issued_++;
      Slot done;
      try {
        const Job job = next_job_();
        lock.unlock();
        done.result.emplace(run_(job));
      } catch (...) {
        done.error = std::current_exception();
      }
      if (!lock.owns_lock()) lock.lock();
      done.ready = true;
      slot_of(ticket) = std::move(done);
      if (ticket == taken_) result_ready_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::function<Job()> next_job_;
  std::function<Result(const Job&)> run_;
  std::mutex mutex_;
  std::condition_variable room_, result_ready_;
  std::vector<Slot> slots_;  // a ring: ticket t lives in slot t % depth
  uint64_t issued_ = 0, taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace trainctl
