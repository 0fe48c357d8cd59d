// Aligned "label  value" lines: the run's header and its summary.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainctl {

using HeaderLines = std::vector<std::pair<std::string, std::string>>;

// One line each, values aligned and later lines of a value indented with them. A label that repeats
// the one above is left out. An empty label with a value is a section's title. Ends with a newline.
std::string format_header(const HeaderLines& lines);

}  // namespace trainctl
