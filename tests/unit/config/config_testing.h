// Shared by the tests of the config layer.
#pragma once

#include <string>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/config/load.h"

namespace trainctl {

// The message with which reading `text` as run.json fails; "" when it is accepted.
inline std::string config_error(const std::string& text,
                                const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "run.json", overrides);
    return "";
  } catch (const UserError& error) {
    return error.code() == ExitCode::kUsage ? error.what()
                                            : "wrong exit code: " + std::string(error.what());
  }
}

// A config that is accepted, for tests that change one thing by --set.
inline const char* const kSmallConfig = R"({
  "model": {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 8},
  "data": {"train": ["data.txt"], "seq_len": 8},
  "training": {"max_steps": 20, "micro_batch_size": 2}
})";

inline std::string set_error(const std::vector<std::string>& overrides) {
  return config_error(kSmallConfig, overrides);
}

}  // namespace trainctl
