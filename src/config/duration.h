// Times in a config: "90s", "10m", "1h30m", "2d".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainctl {

std::optional<double> parse_duration(std::string_view text);  // seconds
std::string format_duration(double seconds);                  // read back to the same number

}  // namespace trainctl
