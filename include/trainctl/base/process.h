// Which process wrote something, told apart from a later one with the same number.
#pragma once

#include <sys/types.h>

#include <string>

namespace trainctl {

struct ProcessIdentity {
  std::string host;
  pid_t pid = 0;
  std::string
      start_time;  // clock ticks since boot, from /proc/<pid>/stat; process numbers are reused

  static ProcessIdentity self();
  static ProcessIdentity parse(const std::string& text);  // pid 0 when it is not one
  std::string to_string() const;                          // "process 123 (started 456) on host7\n"
  bool is_alive() const;                                  // only asked on its own host
};

}  // namespace trainctl
