#include "train/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace trainctl {
namespace {

constexpr int64_t kPiece = int64_t{1} << 22;  // elements, of 8 bytes as double

template <class Use>
void in_pieces(int64_t count, Use use) {
  for (int64_t begin = 0; begin < count; begin += kPiece)
    use(begin, std::min(kPiece, count - begin));
}

at::Tensor piece(const at::Tensor& flat, int64_t begin, int64_t count) {
  return flat.narrow(0, begin, count).to(at::kDouble);
}

}  // namespace

TensorStatistics statistics_of(const at::Tensor& tensor) {
  TensorStatistics out;
  out.min = std::numeric_limits<double>::infinity();
  out.max = -out.min;
  double sum = 0, squares = 0;
  int64_t finite_count = 0;
  const at::Tensor flat = tensor.reshape({-1});
  in_pieces(flat.numel(), [&](int64_t begin, int64_t count) {
    at::Tensor values = piece(flat, begin, count);
    const at::Tensor finite = values.isfinite();
    const int64_t here = finite.sum().item<int64_t>();
    if (here < count) {
      const auto nans = values.isnan().sum().item<int64_t>();
      out.nan_count += nans;
      out.infinite_count += count - here - nans;
      values = values.masked_select(finite);
    }
    if (here == 0) return;
    finite_count += here;
    out.min = std::min(out.min, values.min().item<double>());
    out.max = std::max(out.max, values.max().item<double>());
    sum += values.sum().item<double>();
    squares += values.square().sum().item<double>();
  });
  if (finite_count == 0) out.min = out.max = 0;
  out.mean = finite_count == 0 ? 0 : sum / static_cast<double>(finite_count);
  out.norm = std::sqrt(squares);
  return out;
}

TensorDifference difference_of(const at::Tensor& a, const at::Tensor& b) {
  TensorDifference out;
  const at::Tensor left = a.reshape({-1}), right = b.reshape({-1});
  out.bitwise = a.scalar_type() == b.scalar_type() &&
                (a.nbytes() == 0 ||
                 std::memcmp(left.const_data_ptr(), right.const_data_ptr(), a.nbytes()) == 0);
  if (out.bitwise) return out;
  double apart = 0, size = 0;
  in_pieces(left.numel(), [&](int64_t begin, int64_t count) {
    const at::Tensor x = piece(left, begin, count), y = piece(right, begin, count);
    const at::Tensor finite = x.isfinite().logical_and(y.isfinite());
    const at::Tensor agree = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
    out.nonfinite += finite.logical_or(agree).logical_not().sum().item<int64_t>();
    const at::Tensor difference = x.sub(y).masked_select(finite);
    if (difference.numel() > 0) {
      out.max_abs = std::max(out.max_abs, difference.abs().max().item<double>());
    }
    apart += difference.square().sum().item<double>();
    size += x.masked_select(finite).square().sum().item<double>();
  });
  if (apart > 0) {
    out.relative = size > 0 ? std::sqrt(apart / size) : std::numeric_limits<double>::infinity();
  }
  return out;
}

}  // namespace trainctl
