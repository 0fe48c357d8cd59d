// Attention of one head at a time, out of small products. Included as simd.h is.
//
// Scores are kept for a block of query rows at a time, whole rows, in the cache: no online softmax,
// and the backward pass makes them again from the saved log-sums (Dao et al. 2022, without tiling
// over keys).

constexpr int64_t kQueryBlock = 32;
constexpr int64_t kBackwardQueryBlock = 64;

TRAINCTL_INLINE int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The rows of q, k or v (part 0, 1, 2) of one head, in fp32.
template <typename T>
TRAINCTL_INLINE void copy_part(const Attention<T>& a, int64_t sequence, int64_t head, int part,
                               float scale, float* rows) {
  const int64_t d = a.heads * a.head_width, first = part * d + head * a.head_width;
  for (int64_t t = 0; t < a.time; ++t) {
    const T* from = a.qkv + (sequence * a.time + t) * 3 * d + first;
    for (int64_t j = 0; j < a.head_width; j += kLanes) {
      store(rows + t * a.head_width + j, load(from + j) * scale);
    }
  }
}

template <typename T>
TRAINCTL_INLINE void copy_rows(const T* from, int64_t stride, int64_t count, int64_t width,
                               float* rows) {
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t j = 0; j < width; j += kLanes)
      store(rows + t * width + j, load(from + t * stride + j));
  }
}

// [time, width] → [width, padded time], zeros at the end.
TRAINCTL_INLINE void transpose(const float* rows, int64_t time, int64_t width, float* columns) {
  const int64_t stride = padded(time);
  for (int64_t t = 0; t < stride; t += kLanes) {
    pack_transposed(rows + t * width, width, time - t, width, columns + t, stride);
  }
}

struct HeadBuffers {
  float *q, *k, *v, *k_columns, *v_columns, *out_grad, *k_grad, *v_grad, *p, *s;
};

TRAINCTL_INLINE HeadBuffers split_buffer(float* buffer, int64_t time, int64_t width) {
  const int64_t rows = padded(time) * width;
  HeadBuffers h;
  h.q = buffer;
  h.k = h.q + rows;
  h.v = h.k + rows;
  h.k_columns = h.v + rows;
  h.p = h.k_columns + rows;
  // The rest is the backward pass's.
  h.s = h.p + kBackwardQueryBlock * padded(time);
  h.v_columns = h.s + kBackwardQueryBlock * padded(time);
  h.out_grad = h.v_columns + rows;
  h.k_grad = h.out_grad + rows;
  h.v_grad = h.k_grad + rows;
  return h;
}

// Scores → weights of one query row, in place: softmax over `valid` keys, zero up to `columns`.
TRAINCTL_INLINE float softmax_row(float* s, int64_t valid, int64_t columns) {
  for (int64_t j = valid; j < columns; ++j) s[j] = kLowest;
  Floats top = splat(kLowest);
  for (int64_t j = 0; j < columns; j += kLanes) top = maximum(top, load(s + j));
  const float maximum_score = max_lanes(top);
  Floats sum = {};
  for (int64_t j = 0; j < columns; j += kLanes) {
    const Floats score = load(s + j);
    const Floats e = select(score == kLowest, Floats{}, exponential(score - maximum_score));
    store(s + j, e);
    sum += e;
  }
  const float total = sum_lanes(sum), per_total = 1.0f / total;
  for (int64_t j = 0; j < columns; j += kLanes) store(s + j, load(s + j) * per_total);
  return maximum_score + __builtin_logf(total);
}

template <typename T>
static void attention(const Attention<T>& a, float* buffer, int64_t begin, int64_t end) {
  const int64_t width = a.head_width, stride = padded(a.time), d = a.heads * width;
  const HeadBuffers h = split_buffer(buffer, a.time, width);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
  for (int64_t item = begin; item < end; ++item) {
    const int64_t sequence = item / a.heads, head = item % a.heads;
    copy_part(a, sequence, head, 0, scale, h.q);
    copy_part(a, sequence, head, 1, 1.0f, h.k);
    copy_part(a, sequence, head, 2, 1.0f, h.v);
    transpose(h.k, a.time, width, h.k_columns);
    float* out = h.k;  // no longer needed in rows
    for (int64_t first = 0; first < a.time; first += kQueryBlock) {
      const int64_t rows = first + kQueryBlock < a.time ? kQueryBlock : a.time - first;
      const int64_t keys = a.causal ? first + rows : a.time;
      small_product(rows, padded(keys), width, h.q + first * width, width, 1, h.k_columns, stride,
                    h.p, stride, false);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t query = first + r;
        float* p = h.p + r * stride;
        const float log_sum = softmax_row(p, a.causal ? query + 1 : a.time, padded(keys));
        if (a.log_sum != nullptr) a.log_sum[item * a.time + query] = log_sum;
        if (!a.dropout.active()) continue;
        for (int64_t j = 0; j < padded(keys); j += kLanes) {
          store(p + j, drop(load(p + j), a.dropout, (item * a.time + query) * stride + j));
        }
      }
      small_product(rows, width, keys, h.p, stride, 1, h.v, width, out + first * width, width,
                    false);
    }
    for (int64_t t = 0; t < a.time; ++t) {
      T* to = a.out + (sequence * a.time + t) * d + head * width;
      for (int64_t j = 0; j < width; j += kLanes) store(to + j, load(out + t * width + j));
    }
  }
}

// p holds scores and becomes weights after dropout; s holds the weights' gradient and becomes the
// scores'.
TRAINCTL_INLINE void score_gradient_row(float* p, float* s, float log_sum, int64_t valid,
                                        int64_t columns, const Dropout& dropout, int64_t index) {
  for (int64_t j = valid; j < columns; ++j) p[j] = kLowest;
  Floats dot = {};
  for (int64_t j = 0; j < columns; j += kLanes) {
    const Floats score = load(p + j);
    Floats weight = select(score == kLowest, Floats{}, exponential(score - log_sum));
    Floats gradient = load(s + j);
    if (dropout.active()) gradient = drop(gradient, dropout, index + j);
    store(p + j, weight);
    store(s + j, gradient);
    dot += weight * gradient;
  }
  const float mean = sum_lanes(dot);
  for (int64_t j = 0; j < columns; j += kLanes) {
    const Floats weight = load(p + j);
    store(s + j, weight * (load(s + j) - mean));
    if (dropout.active()) store(p + j, drop(weight, dropout, index + j));
  }
}

template <typename T>
TRAINCTL_INLINE void write_part(const AttentionBackward<T>& b, int64_t sequence, int64_t head,
                                int part, float scale, const float* rows) {
  const int64_t width = b.forward.head_width, d = b.forward.heads * width;
  for (int64_t t = 0; t < b.forward.time; ++t) {
    T* to = b.qkv_grad + (sequence * b.forward.time + t) * 3 * d + part * d + head * width;
    for (int64_t j = 0; j < width; j += kLanes) store(to + j, load(rows + t * width + j) * scale);
  }
}

template <typename T>
static void attention_backward(const AttentionBackward<T>& b, float* buffer, int64_t begin,
                               int64_t end) {
  const Attention<T>& a = b.forward;
  const int64_t width = a.head_width, time = a.time, stride = padded(time), d = a.heads * width;
  const HeadBuffers h = split_buffer(buffer, time, width);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
  for (int64_t item = begin; item < end; ++item) {
    const int64_t sequence = item / a.heads, head = item % a.heads;
    copy_part(a, sequence, head, 0, scale, h.q);
    copy_part(a, sequence, head, 1, 1.0f, h.k);
    copy_part(a, sequence, head, 2, 1.0f, h.v);
    copy_rows(b.out_grad + sequence * time * d + head * width, d, time, width, h.out_grad);
    transpose(h.k, time, width, h.k_columns);
    transpose(h.v, time, width, h.v_columns);
    float* q_grad = h.v;  // v is only needed in columns
    for (int64_t first = 0; first < time; first += kBackwardQueryBlock) {
      const int64_t rows = first + kBackwardQueryBlock < time ? kBackwardQueryBlock : time - first;
      const int64_t keys = a.causal ? first + rows : time, columns = padded(keys);
      const float* q = h.q + first * width;
      const float* out_grad = h.out_grad + first * width;
      small_product(rows, columns, width, q, width, 1, h.k_columns, stride, h.p, stride, false);
      small_product(rows, columns, width, out_grad, width, 1, h.v_columns, stride, h.s, stride,
                    false);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t query = first + r;
        score_gradient_row(h.p + r * stride, h.s + r * stride, a.log_sum[item * time + query],
                           a.causal ? query + 1 : time, columns, a.dropout,
                           (item * time + query) * stride);
      }
      small_product(rows, width, keys, h.s, stride, 1, h.k, width, q_grad + first * width, width,
                    false);
      if (first == 0) {
        // Under causality the first block does not reach all keys.
        for (int64_t j = 0; j < time * width; j += kLanes) {
          store(h.k_grad + j, Floats{});
          store(h.v_grad + j, Floats{});
        }
      }
      small_product(keys, width, rows, h.s, 1, stride, q, width, h.k_grad, width, true);
      small_product(keys, width, rows, h.p, 1, stride, out_grad, width, h.v_grad, width, true);
    }
    write_part(b, sequence, head, 0, scale, q_grad);
    write_part(b, sequence, head, 1, 1.0f, h.k_grad);
    write_part(b, sequence, head, 2, 1.0f, h.v_grad);
  }
}
