// A request to stop, set by SIGINT, SIGTERM, SIGUSR1 or SIGHUP in the executable and asked for by
// the training loop between steps.
#pragma once

#include <string>

namespace trainctl {

// For every command, first of all. Descriptors 0 to 2 that the caller closed are opened on
// /dev/null, or the first file opened would take such a number and be written to as the screen. A
// file size limit becomes an error of the write that meets it (EFBIG) instead of the end of the
// process.
void prepare_process();

void install_stop_handlers();  // handlers only set a flag; a second SIGINT ends the process at once
int stop_signal();             // 0, or the signal that asked
std::string signal_name(int signal);  // "SIGTERM"
}  // namespace trainctl
