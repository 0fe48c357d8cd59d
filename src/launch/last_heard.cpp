#include "launch/last_heard.h"

#include <ctime>

namespace trainctl {

std::string LastHeard::text() const {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(clock_);
  std::tm parts = {};
  ::localtime_r(&seconds, &parts);
  char text[16] = {};
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return std::string("last heard of at ") + text;
}

std::string silence_text(std::chrono::milliseconds time) {
  return "nothing was heard of it for " + seconds_text(time) +
         " (the host is down, hangs, or the network between is broken)";
}

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace trainctl
