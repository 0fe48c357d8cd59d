// The engine as the executable sees it: a library that is loaded only by commands that compute.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainctl {

// Loads libtrainctl_engine.so, hands it {"command": …, …} and returns its exit code. Throws
// environment_error with the missing object and the cure when it does not load.
int call_engine(const nlohmann::json& request);

}  // namespace trainctl
