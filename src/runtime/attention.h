// Which kernel scaled_dot_product_attention takes.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "trainctl/config/config.h"

namespace trainctl {

// Leaves only the wanted back end enabled (all of them for "auto") and returns a header value that
// names the one ATen takes for this model in training. Throws usage_error for a back end that this
// device does not have, or that cannot serve this model there, naming those that can.
std::string select_attention(const Config& config, const at::Device& device);

}  // namespace trainctl
