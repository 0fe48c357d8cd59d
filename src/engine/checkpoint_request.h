// {"command": "checkpoint", "options": {"action": "list", "source": …, …}}
#pragma once

#include <nlohmann/json.hpp>

#include "trainctl/base/error.h"
#include "trainctl/train/host.h"

namespace trainctl {

ExitCode checkpoint_request(const nlohmann::json& request, const RunHost& host);

}  // namespace trainctl
