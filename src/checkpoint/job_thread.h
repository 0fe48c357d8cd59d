// One thread that does one job after another, in order, for somebody who never waits for it unless
// asked. Free of torch, so that it can be tested under ThreadSanitizer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace trainctl {

class JobThread {
 public:
  // Set once the owner gives up: a long job should look at it and end early.
  using Cancelled = std::atomic<bool>;

  JobThread() = default;
  ~JobThread();  // waits for the job at hand, drops those behind it
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // Starts the thread at the first call. Must not throw out of `job`; the jobs see to their errors.
  void post(std::function<void()> job);
  bool busy() const;
  void wait();
  // False when jobs are left at the deadline.
  bool wait_until(std::chrono::steady_clock::time_point deadline);

  void cancel() { cancelled_ = true; }
  const Cancelled& cancelled() const { return cancelled_; }

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> jobs_;
  bool working_ = false, stopping_ = false;
  Cancelled cancelled_{false};
  std::thread thread_;
};

}  // namespace trainctl
