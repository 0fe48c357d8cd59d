// Cross-entropy and its gradient over rows of logits, in place. Included as simd.h is.

constexpr float kLowest = -3.4e38f;  // the fill beyond the row's end: its e^x counts as nothing

constexpr int64_t kBlock = 1024;  // elements added up in fp32 before they enter a sum in fp64

struct RowSum {
  float maximum;
  double sum;    // of e^(z - maximum)
  double total;  // of z, for label smoothing
};

template <typename T>
TRAINCTL_INLINE float row_maximum(const CrossEntropy<T>& a, const T* z) {
  Floats top = splat(kLowest);
  for (int64_t j = 0; j < a.classes; j += kLanes) {
    top = maximum(top, load_some(z + j, a.classes - j, kLowest));
  }
  return max_lanes(top);
}

template <typename T>
TRAINCTL_INLINE double row_total(const CrossEntropy<T>& a, const T* z) {
  double total = 0;
  for (int64_t block = 0; block < a.classes; block += kBlock) {
    const int64_t end = at_most(block + kBlock, a.classes);
    Floats sum = {};
    for (int64_t j = block; j < end; j += kLanes) sum += load_some(z + j, end - j, 0.0f);
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

// With fp32 logits e^(z - maximum) is left in their place when the gradient comes next; bf16 could
// not hold it.
template <typename T>
TRAINCTL_INLINE RowSum sum_row(const CrossEntropy<T>& a, T* z) {
  RowSum row{row_maximum(a, z), 0, a.label_smoothing > 0 ? row_total(a, z) : 0.0};
  for (int64_t block = 0; block < a.classes; block += kBlock) {
    const int64_t end = at_most(block + kBlock, a.classes);
    Floats sum = {};
    for (int64_t j = block; j < end; j += kLanes) {
      const int64_t count = end - j;
      Floats e = exponential(load_some(z + j, count, kLowest) - row.maximum);
      if constexpr (sizeof(T) == 4) {
        if (a.write_grad) store_some(z + j, count, e);
      }
      if (count < kLanes) {  // the clamped fill is tiny, but not zero
        float lane[kLanes];
        store(lane, e);
        e = load_some(lane, count, 0.0f);
      }
      sum += e;
    }
    row.sum += static_cast<double>(sum_lanes(sum));
  }
  return row;
}

// z becomes (softmax(z) - target's distribution). The target's own entry is done by the caller.
template <typename T>
TRAINCTL_INLINE void write_row_gradient(const CrossEntropy<T>& a, T* z, const RowSum& row) {
  const float per_sum = static_cast<float>(1.0 / row.sum);
  const float smooth = static_cast<float>(a.label_smoothing / static_cast<double>(a.classes));
  for (int64_t j = 0; j < a.classes; j += kLanes) {
    const int64_t count = a.classes - j;
    Floats e = load_some(z + j, count, 0.0f);
    if constexpr (sizeof(T) == 2) e = exponential(e - row.maximum);
    store_some(z + j, count, e * per_sum - smooth);
  }
}

template <typename T>
TRAINCTL_INLINE void clear_row(T* z, int64_t count) {
  for (int64_t j = 0; j < count; j += kLanes) store_some(z + j, count - j, Floats{});
}

template <typename T>
TRAINCTL_INLINE double cross_entropy_row(const CrossEntropy<T>& a, int64_t row) {
  T* z = a.logits + row * a.stride;
  const int64_t target = a.targets[row];
  if (target == a.ignore) {
    if (a.write_grad) clear_row(z, a.classes);
    return 0;
  }
  const float target_logit = load_scalar(z + target);
  const RowSum sums = sum_row(a, z);
  const double log_sum = static_cast<double>(sums.maximum) + __builtin_log(sums.sum);
  const double keep = 1.0 - a.label_smoothing;
  double loss = keep * (log_sum - static_cast<double>(target_logit));
  if (a.label_smoothing > 0) {
    loss += a.label_smoothing * (log_sum - sums.total / static_cast<double>(a.classes));
  }
  if (a.write_grad) {
    write_row_gradient(a, z, sums);
    const double p = static_cast<double>(__builtin_expf(target_logit - sums.maximum)) / sums.sum;
    const double smooth = a.label_smoothing / static_cast<double>(a.classes);
    store_scalar(z + target, static_cast<float>(p - keep - smooth));
  }
  return loss;
}

// Rows in groups, so that the sums of the bias gradient are read and written once per group.
template <typename T>
static double cross_entropy(const CrossEntropy<T>& a, int64_t begin, int64_t end) {
  constexpr int64_t kGroup = 4;
  double loss = 0;
  for (int64_t first = begin; first < end; first += kGroup) {
    const int64_t last = first + kGroup < end ? first + kGroup : end;
    for (int64_t row = first; row < last; ++row) loss += cross_entropy_row(a, row);
    if (!a.write_grad || a.bias_grad == nullptr) continue;
    for (int64_t j = 0; j < a.classes; j += kLanes) {
      const int64_t count = a.classes - j;
      Floats total = load_some(a.bias_grad + j, count, 0.0f);
      for (int64_t row = first; row < last; ++row) {
        total += load_some(a.logits + row * a.stride + j, count, 0.0f);
      }
      store_some(a.bias_grad + j, count, total);
    }
  }
  return loss;
}
