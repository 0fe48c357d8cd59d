// A command's own arguments, read by CLI11, with errors that name the nearest flag.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace trainctl {

// Parses `arguments` into what `app` was told to fill. Returns 0 when the help was asked for and
// printed; throws usage_error for everything wrong.
std::optional<int> parse_arguments(CLI::App* app, const Arguments& arguments);

// A check for whole numbers that refuses what overflows, where CLI11's own conversion saturates.
CLI::Validator whole_number(int64_t low, int64_t high);

// A flag that may be repeated and takes one value each time.
CLI::Option* add_repeated(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                          const std::string& description);

}  // namespace trainctl
