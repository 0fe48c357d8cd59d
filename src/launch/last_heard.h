// When another launcher was last heard of, and what is said once it no longer is.
#pragma once

#include <chrono>
#include <string>

#include "launch/sockets.h"

namespace trainctl {

class LastHeard {
 public:
  explicit LastHeard(SteadyTime now) : last_asked_(now) { note(now); }

  void note(SteadyTime now) {
    steady_ = now;
    clock_ = std::chrono::system_clock::now();
  }
  // To be asked often. After a gap in the asking process's own time (it was stopped, the machine
  // paused) nobody else was silent.
  bool is_silent(SteadyTime now, std::chrono::milliseconds limit) {
    if (now - last_asked_ > limit / 2) note(now);
    last_asked_ = now;
    return now - steady_ > limit;
  }
  std::string text() const;  // "last heard of at 19:05:02"

 private:
  SteadyTime steady_;
  SteadyTime last_asked_;
  std::chrono::system_clock::time_point clock_;  // for people
};

std::string silence_text(std::chrono::milliseconds time);
std::string seconds_text(std::chrono::milliseconds time);  // "10 s"

}  // namespace trainctl
