// The loss curve, drawn with characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

struct CurvePoint {
  int64_t step = 0;
  double value = 0;
};

struct LossHistory {
  std::vector<CurvePoint> training, validation;
};

// From a metrics.jsonl. Lines that are not JSON are passed over; non-finite losses too. Throws
// data_error when the file cannot be read.
LossHistory read_loss_history(const fs::path& metrics);

struct CurveStyle {
  int width = 80;   // columns, all included
  int height = 12;  // lines of the plot itself
  bool unicode = true;
};

// Steps to the right, loss upward, axes labelled, a legend below. Training loss is averaged over
// the steps that share a column. Empty when there are fewer than two finite points to draw.
std::string draw_loss_curve(const LossHistory& history, const CurveStyle& style);

}  // namespace trainctl
