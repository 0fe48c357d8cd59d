// What is said when the kernel gives no descriptor.
#pragma once

#include <string>

#include "trainctl/base/error.h"

namespace trainctl {

// "cannot WHAT: Too many open files; only 4 may be open at once (ulimit -n): …", or the error alone
// where it is another one.
UserError system_call_error(const std::string& what, int error_number);

bool means_too_many_open_files(int error_number);

}  // namespace trainctl
