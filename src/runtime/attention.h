// Which kernel scaled_dot_product_attention takes.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

// Leaves only the wanted back end enabled (all of them for "auto") and returns a header value that
// names the one ATen takes for this model in training. Throws usage_error for a back end that this
// device does not have, or that cannot serve this model there, naming those that can.
std::string select_attention(const Config& config, const at::Device& device);

// Each back end by itself: `run` is called with that one alone enabled. Where it cannot serve what
// `run` computes, `reason` says why. Afterwards all are enabled.
struct AttentionTrial {
  const char* name;
  std::string reason;  // empty: `run` came to its end
  double result = 0;   // what `run` returned
};
std::vector<AttentionTrial> try_attention_backends(const at::Device& device,
                                                   const std::function<double()>& run);

}  // namespace trainctl
