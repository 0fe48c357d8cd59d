// The steps of the preflight, each measured on this rank alone.
#pragma once

#include <string>
#include <vector>

#include "trainctl/report/preflight.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

// A square product of fp32, bf16 or fp16.
PreflightFigure measure_matmul(at::ScalarType type, const char* step, Device& device);

// Forward and backward pass of causal attention, by each back end.
std::vector<PreflightFigure> measure_attention(Device& device);

// Writes and syncs a file in `folder`, or in the nearest one above it that exists, and removes it.
PreflightFigure measure_write(const std::string& folder);

}  // namespace trainctl
