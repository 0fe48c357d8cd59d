// When something that happens every N steps or every so many seconds is due.
#pragma once

#include <chrono>
#include <cstdint>

#include "trainctl/config/config.h"

namespace trainctl {

class IntervalClock {
 public:
  explicit IntervalClock(const Interval& interval) : interval_(interval) {}

  bool due(int64_t step) {
    if (interval_.steps > 0) return step % interval_.steps == 0;
    if (interval_.seconds <= 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::duration<double>(interval_.seconds)) return false;
    last_ = now;
    return true;
  }

  // More than half of the time until the next one has gone by.
  bool nears(int64_t step) const {
    if (interval_.steps > 0) return 2 * (step % interval_.steps) >= interval_.steps;
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - last_;
    return interval_.seconds > 0 && 2 * gone.count() >= interval_.seconds;
  }

 private:
  Interval interval_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace trainctl
