// Rotary position embedding (Su et al. 2021, RoFormer, equation 34) in the half-split layout of
// GPT-NeoX and of Hugging Face's Llama: dimension i is paired with i + D/2, not with its neighbour.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace trainctl {

struct RotaryAngles {
  at::Tensor cos_td, sin_td;  // [time, head width] fp32; undefined: positions are not rotary
  bool defined() const { return cos_td.defined(); }
};

// Angles of positions 0 … max_seq_len − 1, kept on the device.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(int64_t head_width, int64_t max_seq_len, double theta, at::Device device);
  RotaryAngles angles(int64_t time) const;  // undefined from a default-constructed table

 private:
  at::Tensor cos_td_, sin_td_;
};

// x_bhtd [batch, heads, time, head width]. Computed in fp32 whatever the type of x.
at::Tensor rotate(const at::Tensor& x_bhtd, const RotaryAngles& angles);

}  // namespace trainctl
