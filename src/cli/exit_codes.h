// The exit codes as they are documented: --help and docs/exit-codes.md show these rows.
#pragma once

#include <string>

namespace trainctl {

std::string exit_codes_text();

}  // namespace trainctl
