#include "model/rotary.h"

namespace trainctl {

// Position t turns the pair (i, i + D/2) by the angle t · theta^(−2i/D). The angles are computed in
// fp64: at positions in the thousands fp32 products are off by 1e-4 and more.
RotaryTable::RotaryTable(int64_t head_width, int64_t max_seq_len, double theta, at::Device device) {
  const at::Tensor exponent = at::arange(0, head_width, 2, at::kDouble) / double(head_width);
  const at::Tensor frequency = at::pow(theta, -exponent);
  const at::Tensor half = at::outer(at::arange(max_seq_len, at::kDouble), frequency);
  const at::Tensor full = at::cat({half, half}, 1);
  cos_td_ = full.cos().to(device, at::kFloat);
  sin_td_ = full.sin().to(device, at::kFloat);
}

RotaryAngles RotaryTable::angles(int64_t time) const {
  if (!cos_td_.defined()) return {};
  return {cos_td_.narrow(0, 0, time), sin_td_.narrow(0, 0, time)};
}

at::Tensor rotate(const at::Tensor& x_bhtd, const RotaryAngles& angles) {
  const auto halves = x_bhtd.chunk(2, -1);
  const at::Tensor turned = at::cat({-halves[1], halves[0]}, -1);
  return x_bhtd * angles.cos_td + turned * angles.sin_td;
}

}  // namespace trainctl
