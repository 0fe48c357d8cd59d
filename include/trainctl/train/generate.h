// Text continued by a causal model, byte by byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainctl/config/config.h"
#include "trainctl/model/model.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

struct GenerateOptions {
  int64_t max_new_tokens = 200;
  double temperature = 0.8;  // below 1e-4: the most probable token
  int64_t top_k = 0;         // 0: all tokens
  uint64_t seed = 1;
  std::function<bool()> interrupted;  // asked before each token; true ends the text there
};

// The continuation without the prompt, ended early by an end-of-text token. The context is the last
// max_seq_len tokens. Draws come from a generator of its own, so training's streams are untouched.
std::string generate_text(Model& model, const Config& config, Device& device,
                          const std::string& prompt, const GenerateOptions& options);

}  // namespace trainctl
