// Files of /proc and /sys, where whatever is missing or odd reads as nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl::doctor {

std::vector<std::string> lines_of(const fs::path& path);
std::string first_line_of(const fs::path& path);
// "key: value" lines (or another sign between them); both trimmed.
std::map<std::string, std::string> key_values(const fs::path& path, char between);
// The whole number that the text begins with, after white space.
std::optional<int64_t> number_in(const std::string& text);
std::string trimmed(const std::string& text);

}  // namespace trainctl::doctor
