#include "checkpoint/job_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace trainctl {
namespace {

// Signals are for the main thread; computing comes before checksums.
void be_in_the_background() {
  constexpr int kNice = 10;
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, thread, kNice);  // on Linux a thread has its own
  ::pthread_setname_np(::pthread_self(), "checkpoint");
}

// A new thread inherits the mask, so that no signal reaches it in between.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

JobThread::~JobThread() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void JobThread::post(std::function<void()> job) {
  const std::lock_guard guard(mutex_);
  if (!thread_.joinable()) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  jobs_.push_back(std::move(job));
  wake_.notify_all();
}

bool JobThread::busy() const {
  const std::lock_guard guard(mutex_);
  return working_ || !jobs_.empty();
}

void JobThread::wait() {
  std::unique_lock guard(mutex_);
  idle_.wait(guard, [this] { return !working_ && jobs_.empty(); });
}

bool JobThread::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock guard(mutex_);
  return idle_.wait_until(guard, deadline, [this] { return !working_ && jobs_.empty(); });
}

void JobThread::run() {
  be_in_the_background();
  std::unique_lock guard(mutex_);
  for (;;) {
    wake_.wait(guard, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    working_ = true;
    guard.unlock();
    job();
    job = nullptr;  // what it holds is let go of before it counts as done
    guard.lock();
    working_ = false;
    idle_.notify_all();
  }
}

}  // namespace trainctl
