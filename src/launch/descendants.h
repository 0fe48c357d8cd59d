// The processes below one, found through /proc.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainctl {

struct RunningProcess {
  pid_t pid = 0;
  std::string name;
  char state = '?';  // as /proc/<pid>/stat has it; 'D': waits inside the kernel

  bool is_dead() const { return state == 'Z' || state == 'X'; }
};

// All descendants of `ancestor`, dead ones (zombies) included, parents before children.
std::vector<RunningProcess> descendants_of(pid_t ancestor);

// Only the direct children.
std::vector<pid_t> children_of(pid_t parent);

// The process after fork shall not pass for another launcher in `ps` and `pkill`.
void set_process_title(const std::string& title);

}  // namespace trainctl
