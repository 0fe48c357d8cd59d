// trainctl doctor --explain and --docs: the table of explanations by itself.
#pragma once

#include <string>

namespace trainctl {

// `what` is an error's text, a log file, "-" for standard input, or a row's name. Prints what is
// known of it; returns 0, or 1 when nothing is.
int explain_command(const std::string& what, bool json);

}  // namespace trainctl
