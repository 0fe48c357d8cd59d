// When another launcher was last heard of, and what is said once it no longer is.
#pragma once

#include <chrono>
#include <string>

#include "launch/sockets.h"

namespace trainctl {

class LastHeard {
 public:
  explicit LastHeard(SteadyTime now) { note(now); }

  void note(SteadyTime now) {
    steady_ = now;
    clock_ = std::chrono::system_clock::now();
  }
  std::chrono::steady_clock::duration quiet(SteadyTime now) const { return now - steady_; }
  std::string text() const;  // "last heard of at 19:05:02"

 private:
  SteadyTime steady_;
  std::chrono::system_clock::time_point clock_;  // for people
};

std::string silence_text(std::chrono::milliseconds time);
std::string seconds_text(std::chrono::milliseconds time);  // "10 s"

}  // namespace trainctl
