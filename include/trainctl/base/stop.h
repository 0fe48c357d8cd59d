// A request to stop, set by SIGINT, SIGTERM or SIGUSR1 in the executable and asked for by the
// training loop between steps.
#pragma once

namespace trainctl {

void install_stop_handlers();  // handlers only set a flag; a second SIGINT ends the process at once
int stop_signal();             // 0, or the signal that asked
}  // namespace trainctl
