// Splitting kernels over ATen's threads, so that the result depends on the thread count at most.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

namespace trainctl::ops {

// Into how many parts to split `count` items of which at least `grain` should stay together.
inline int64_t parts_of(int64_t count, int64_t grain) {
  if (at::in_parallel_region()) return 1;
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  return std::min<int64_t>(useful, at::get_num_threads());
}

// work(part, begin, end) for each part.
template <typename Work>
void for_parts(int64_t count, int64_t parts, const Work& work) {
  if (parts <= 1) {
    work(int64_t{0}, int64_t{0}, count);
    return;
  }
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      work(part, part * count / parts, (part + 1) * count / parts);
    }
  });
}

// Sums over rows: each part adds to its own, and they are added up in order.
class PartialSums {
 public:
  // `result` is contiguous fp32; whatever it holds is forgotten.
  PartialSums(const at::Tensor& result, int64_t parts)
      : result_(result.mutable_data_ptr<float>()), size_(result.numel()) {
    std::fill_n(result_, size_, 0.0f);
    others_.resize(static_cast<size_t>((parts - 1) * size_));
  }
  float* of_part(int64_t part) { return part == 0 ? result_ : others_.data() + (part - 1) * size_; }
  void finish() {
    for (size_t i = 0; i < others_.size(); ++i)
      result_[i % static_cast<size_t>(size_)] += others_[i];
  }

 private:
  float* result_;  // the tensor outlives the sums
  int64_t size_;
  std::vector<float> others_;
};

}  // namespace trainctl::ops
