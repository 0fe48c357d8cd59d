// What the launchers of a run must agree on before any rank starts, as names and values that are
// shown where they differ.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainctl {

using AgreedValues = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostAgreedValues = 1024;  // that launchers tell each other

// One value per key of a resolved config, {"config key training.max_steps", "20"}; long ones are
// cut and get a checksum.
AgreedValues agreed_config(const std::string& config_json);

// "config key training.max_steps: it is 20 on a and 30 on b; run.seed: …"; empty when they agree.
std::string difference_text(const AgreedValues& here, const std::string& here_host,
                            const AgreedValues& there, const std::string& there_host);

}  // namespace trainctl
