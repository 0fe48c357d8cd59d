// Evidence as lines: "gpus.cuda.count" and its value.
#pragma once

#include <map>
#include <string>

#include "doctor/group.h"

namespace trainctl::doctor {

// Leaves by their path; a list of plain values is one leaf.
std::map<std::string, std::string> flatten(const Json& value, const std::string& path = "");

}  // namespace trainctl::doctor
