#include "launch/open_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace trainctl {

bool means_too_many_open_files(int error_number) {
  return error_number == EMFILE || error_number == ENFILE;
}

UserError system_call_error(const std::string& what, int error_number) {
  std::string text = "cannot " + what + ": " + std::generic_category().message(error_number);
  rlimit limit = {};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    text += "; only " + std::to_string(limit.rlim_cur) +
            " may be open at once in a process (ulimit -n): raise it, as with ulimit -n 1024";
  } else if (error_number == ENFILE) {
    text += "; the whole machine has no more: see /proc/sys/fs/file-nr";
  }
  return environment_error(text);
}

}  // namespace trainctl
