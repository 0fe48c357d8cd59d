// What ended this rank, for torchrun's report of the failure, or the one of trainctl launch.
#pragma once

#include "trainctl/base/log.h"

namespace trainctl {

// `sink`, after which errors also go to the file that TORCHELASTIC_ERROR_FILE names, in torchrun's
// format; the last error counts. Without that variable, `sink` itself. A file that cannot be
// written changes nothing else.
LogSink with_error_file(LogSink sink);

// The file's content; `seconds` since 1970.
std::string error_file_text(const std::string& message, long long seconds);

}  // namespace trainctl
