// The engine as the executable sees it: a library that is loaded only by commands that compute.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace trainctl {

// Loads libtrainctl_engine.so, hands it {"command": …, …} and returns its exit code. Throws
// environment_error with the missing object and the cure when it does not load. `began` hears of a
// run's folder once the run begins.
using RunBegan = std::function<void(const std::string& run_directory)>;
int call_engine(const nlohmann::json& request, const RunBegan& began = {});

}  // namespace trainctl
