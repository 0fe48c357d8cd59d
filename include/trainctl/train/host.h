// What a command of the engine needs of the process around it.
#pragma once

#include <functional>
#include <string>

namespace trainctl {

struct RunHost {
  std::function<void(const std::string&)> print;     // to stdout, as it is
  std::function<void(const std::string&)> progress;  // transient line; "" clears it
  std::function<int()> stop_signal;                  // 0, or the signal that asked to stop
  std::function<void(const std::string&)> began;     // a run, in this folder
  bool is_terminal = false;
  int terminal_width = 80;
};

}  // namespace trainctl
