// Kernels over rows: norms, activations, sums. Included as simd.h is.

template <typename T>
TRAINCTL_INLINE Floats branch_value(const NormForward<T>& a, int64_t row, int64_t j) {
  const int64_t at = row * a.width + j;
  Floats value = load(a.branch + at);
  if (a.dropout.active()) value = rounded<T>(drop(value, a.dropout, at));
  return value;
}

template <typename T>
static void norm_forward(const NormForward<T>& a, int64_t begin, int64_t end) {
  const float per_element = 1.0f / static_cast<float>(a.width);
  for (int64_t row = begin; row < end; ++row) {
    const float* s = a.x + row * a.width;
    Floats total = {};
    if (a.branch != nullptr) {
      float* sum = a.sum + row * a.width;
      for (int64_t j = 0; j < a.width; j += kLanes) {
        const Floats value = load(s + j) + branch_value(a, row, j);
        store(sum + j, value);
        total += value;
      }
      s = sum;
    } else {
      for (int64_t j = 0; j < a.width; j += kLanes) total += load(s + j);
    }
    if (a.gamma == nullptr) continue;
    const float mean = sum_lanes(total) * per_element;
    Floats squares = {};
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const Floats centred = load(s + j) - mean;
      squares += centred * centred;
    }
    const float rstd = 1.0f / __builtin_sqrtf(sum_lanes(squares) * per_element + a.eps);
    a.mean[row] = mean;
    a.rstd[row] = rstd;
    for (int64_t j = 0; j < a.width; j += kLanes) {
      Floats value = (load(s + j) - mean) * rstd * load(a.gamma + j);
      if (a.beta != nullptr) value += load(a.beta + j);
      if (a.out != nullptr) store(a.out + row * a.width + j, value);
      if (a.out32 != nullptr) store(a.out32 + row * a.width + j, value);
    }
  }
}

TRAINCTL_INLINE void accumulate(float* sums, Floats value) {
  if (sums != nullptr) store(sums, load(sums) + value);
}

// What dropout lets through of dx, as it is stored: written where wanted and returned.
template <typename T>
TRAINCTL_INLINE Floats masked_gradient(Floats dx, T* out, const Dropout& dropout, int64_t at) {
  Floats value = dropout.active() ? drop(rounded<T>(dx), dropout, at) : dx;
  value = rounded<T>(value);
  if (out != nullptr) store(out + at, value);
  return value;
}

template <typename T>
TRAINCTL_INLINE Floats norm_gradient(const NormBackward<T>& a, int64_t at) {
  Floats g = {};
  if (a.grad != nullptr) g = load(a.grad + at);
  if (a.grad32 != nullptr) g += load(a.grad32 + at);
  return g;
}

template <typename T>
static void norm_backward(const NormBackward<T>& a, int64_t begin, int64_t end) {
  const float per_element = 1.0f / static_cast<float>(a.width);
  const bool branch = a.branch_grad != nullptr || a.bias_grad != nullptr;
  for (int64_t row = begin; row < end; ++row) {
    const float mean = a.mean[row], rstd = a.rstd[row];
    Floats sum_g = {}, sum_gx = {};
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const int64_t at = row * a.width + j;
      const Floats g = norm_gradient(a, at);
      const Floats normal = (load(a.x + at) - mean) * rstd;
      const Floats scaled = g * load(a.gamma + j);
      sum_g += scaled;
      sum_gx += scaled * normal;
      accumulate(a.gamma_grad + j, g * normal);
      if (a.beta_grad != nullptr) accumulate(a.beta_grad + j, g);
    }
    const float mean_g = sum_lanes(sum_g) * per_element;
    const float mean_gx = sum_lanes(sum_gx) * per_element;
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const int64_t at = row * a.width + j;
      const Floats normal = (load(a.x + at) - mean) * rstd;
      const Floats scaled = norm_gradient(a, at) * load(a.gamma + j);
      Floats dx = (scaled - mean_g - normal * mean_gx) * rstd;
      if (a.residual != nullptr) dx += load(a.residual + at);
      store(a.dx + at, dx);
      if (!branch) continue;
      const Floats masked = masked_gradient(dx, a.branch_grad, a.dropout, at);
      if (a.bias_grad != nullptr) accumulate(a.bias_grad + j, masked);
    }
  }
}

template <typename T>
static void branch_backward(const BranchBackward<T>& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const int64_t at = row * a.width + j;
      const Floats masked = masked_gradient(load(a.dx + at), a.branch_grad, a.dropout, at);
      if (a.bias_grad != nullptr) accumulate(a.bias_grad + j, masked);
    }
  }
}

template <typename T>
static void column_sums(const T* rows, int64_t width, float* sums, int64_t begin, int64_t end) {
  constexpr int64_t kStrip =
      4;  // vectors side by side, so that the adds do not wait for each other
  int64_t j = 0;
  for (; j + kStrip * kLanes <= width; j += kStrip * kLanes) {
    Floats total[kStrip] = {};
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t s = 0; s < kStrip; ++s) total[s] += load(rows + row * width + j + s * kLanes);
    }
    for (int64_t s = 0; s < kStrip; ++s) accumulate(sums + j + s * kLanes, total[s]);
  }
  for (; j < width; j += kLanes) {
    Floats total = {};
    for (int64_t row = begin; row < end; ++row) total += load(rows + row * width + j);
    accumulate(sums + j, total);
  }
}

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
constexpr float kTanhScale = 0.79788456080286536f;  // sqrt(2/π)
constexpr float kTanhCubic = 0.044715f;

TRAINCTL_INLINE Floats hyperbolic_tangent(Floats x) {
  return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}

template <ActivationKind kind>
TRAINCTL_INLINE Floats activation_value(Floats x) {
  if constexpr (kind == ActivationKind::kGelu) {
    return 0.5f * x * (1.0f + error_function(x * kSqrtHalf));
  } else if constexpr (kind == ActivationKind::kGeluTanh) {
    return 0.5f * x * (1.0f + hyperbolic_tangent(kTanhScale * (x + kTanhCubic * x * x * x)));
  } else {
    return x < 0.0f ? Floats{} : x;  // NaN stays
  }
}

template <ActivationKind kind>
TRAINCTL_INLINE Floats activation_slope(Floats x) {
  if constexpr (kind == ActivationKind::kGelu) {
    return 0.5f * (1.0f + error_function(x * kSqrtHalf)) +
           x * kInverseSqrtTwoPi * exponential(-0.5f * x * x);
  } else {
    const Floats t = hyperbolic_tangent(kTanhScale * (x + kTanhCubic * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (kTanhScale * (1.0f + 3.0f * kTanhCubic * x * x));
  }
}

template <typename T, ActivationKind kind>
static void activation_forward_as(const ActivationForward<T>& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const int64_t at = row * a.width + j;
      Floats value = activation_value<kind>(load(a.in + at));
      if (a.dropout.active()) value = drop(rounded<T>(value), a.dropout, at);
      store(a.out + at, value);
    }
  }
}

template <typename T>
static void activation_forward(const ActivationForward<T>& a, int64_t begin, int64_t end) {
  switch (a.kind) {
    case ActivationKind::kGelu:
      return activation_forward_as<T, ActivationKind::kGelu>(a, begin, end);
    case ActivationKind::kGeluTanh:
      return activation_forward_as<T, ActivationKind::kGeluTanh>(a, begin, end);
    case ActivationKind::kRelu:
      return activation_forward_as<T, ActivationKind::kRelu>(a, begin, end);
  }
}

template <typename T, ActivationKind kind>
static void activation_backward_as(const ActivationBackward<T>& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t j = 0; j < a.width; j += kLanes) {
      const int64_t at = row * a.width + j;
      Floats g = load(a.grad + at);
      if constexpr (kind == ActivationKind::kRelu) {
        const Floats out = load(a.out + at);
        g = out <= 0.0f ? Floats{} : g * a.dropout.scale;
      } else {
        if (a.dropout.active()) g = rounded<T>(drop(g, a.dropout, at));
        Floats x = load(a.in + at);
        g *= activation_slope<kind>(x);
      }
      g = rounded<T>(g);
      store(a.grad + at, g);
      if (a.bias_grad != nullptr) accumulate(a.bias_grad + j, g);
    }
  }
}

template <typename T>
static void activation_backward(const ActivationBackward<T>& a, int64_t begin, int64_t end) {
  switch (a.kind) {
    case ActivationKind::kGelu:
      return activation_backward_as<T, ActivationKind::kGelu>(a, begin, end);
    case ActivationKind::kGeluTanh:
      return activation_backward_as<T, ActivationKind::kGeluTanh>(a, begin, end);
    case ActivationKind::kRelu:
      return activation_backward_as<T, ActivationKind::kRelu>(a, begin, end);
  }
}
