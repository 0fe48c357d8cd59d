// Loops over memory that ATen has no fused kernel for, without ATen: each works on a range of rows
// (or heads), so that the caller decides on threads, and each exists once per instruction set.
//
// T is the type in which activations are kept: float, or Bf16 under bf16 autocast, where every
// value that PyTorch's autocast would round to bf16 is rounded here too; sums are fp32 throughout.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

struct Bf16 {
  uint16_t bits;
};

// Keeps an element with probability 1 - p and scales it by 1 / (1 - p).
struct Dropout {
  uint32_t threshold = 0;  // p · 2^32; 0: no dropout
  float scale = 1;
  uint32_t key_low = 0, key_high = 0;
  bool active() const { return threshold != 0; }
};

// For each row: s = x + dropout(branch), out = layer_norm(s). Without `branch`, s = x; without
// `gamma`, no norm is made.
template <typename T>
struct NormForward {
  const float* x;
  const T* branch = nullptr;
  Dropout dropout;
  float* sum = nullptr;  // receives s
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float eps = 0;
  T* out = nullptr;        // receives the norm, and
  float* out32 = nullptr;  // in fp32
  float* mean = nullptr;
  float* rstd = nullptr;
  int64_t width = 0;
};

// The norm's gradient, g = grad + grad32, carried back through layer_norm, plus `residual`: dx.
// Then dropout's mask on dx: branch_grad. Sums over rows are added to the last three.
template <typename T>
struct NormBackward {
  const T* grad = nullptr;
  const float* grad32 = nullptr;
  const float* residual = nullptr;
  const float* x;  // what the norm read
  const float* mean;
  const float* rstd;
  const float* gamma;
  float* dx;
  T* branch_grad = nullptr;
  Dropout dropout;
  float* gamma_grad = nullptr;
  float* beta_grad = nullptr;
  float* bias_grad = nullptr;
  int64_t width = 0;
};

// branch_grad = dropout's mask on dx, and its sums over rows; either may be absent.
template <typename T>
struct BranchBackward {
  const float* dx;
  T* branch_grad = nullptr;
  Dropout dropout;
  float* bias_grad = nullptr;
  int64_t width = 0;
};

enum class ActivationKind { kGelu, kGeluTanh, kRelu };

// out = dropout(activation(in)).
template <typename T>
struct ActivationForward {
  const T* in;
  ActivationKind kind;
  Dropout dropout;
  T* out;
  int64_t width = 0;
};

// grad (in place) becomes the gradient of in. ReLU reads only `out`: where it is zero, ReLU
// or dropout stopped the gradient.
template <typename T>
struct ActivationBackward {
  T* grad;
  const T* in = nullptr;
  const T* out = nullptr;
  ActivationKind kind;
  Dropout dropout;
  float* bias_grad = nullptr;
  int64_t width = 0;
};

// Cross-entropy of rows of logits against targets, summed; with `write_grad` the logits
// become the gradient of that sum. `ignore` marks targets that count for nothing.
template <typename T>
struct CrossEntropy {
  T* logits;
  const int64_t* targets;
  int64_t classes = 0;
  int64_t stride = 0;  // from row to row
  int64_t ignore = -100;
  double label_smoothing = 0;
  bool write_grad = false;
  float* bias_grad = nullptr;
};

// Self-attention of one sequence and head from rows of joined q, k, v, as the projection leaves
// them: q at qkv[t * 3 * d + head * D], k at d further, v at 2 * d. Any number of rows; head width
// D a multiple of 16, at most kMaxHeadWidth.
template <typename T>
struct Attention {
  const T* qkv;
  T* out;          // [b, t, d]
  float* log_sum;  // [b, h, t]
  int64_t batch = 0, time = 0, heads = 0, head_width = 0;
  bool causal = false;
  Dropout dropout;
};

template <typename T>
struct AttentionBackward {
  Attention<T> forward;
  const T* out_grad;  // [b, t, d]
  T* qkv_grad;        // [b, t, 3 d]
};

// c (+)= a b (+ bias in each row): c is [m, n]; a is [m, k], or [k, m] when transposed; b is [k,
// n], or [n, k] when transposed; strides are from row to row as they lie. The columns of c from n
// up to the next multiple of kColumnPadding may be overwritten.
//
// bf16: the result goes to c32, or rounded to c16, which cannot accumulate and needs
// k <= kMaxUnsplitBf16. Untransposed a and transposed b need even strides, and after an odd k a
// finite number in the column that follows.
template <typename T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const T* a;
  int64_t a_stride = 0;
  bool a_transposed = false;
  const T* b;
  int64_t b_stride = 0;
  bool b_transposed = false;
  const float* bias = nullptr;
  float* c32 = nullptr;
  Bf16* c16 = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

inline constexpr int64_t kColumnPadding = 16;
inline constexpr int64_t kMaxUnsplitBf16 = 1024;
inline constexpr int64_t kProductBuffer = 512 * 64 + 512 * 192 + 16;  // floats, per thread

inline constexpr int64_t kMaxHeadWidth = 128;

template <typename T>
struct KernelsFor {
  void (*norm_forward)(const NormForward<T>&, int64_t begin, int64_t end);
  void (*norm_backward)(const NormBackward<T>&, int64_t begin, int64_t end);
  void (*branch_backward)(const BranchBackward<T>&, int64_t begin, int64_t end);
  void (*activation_forward)(const ActivationForward<T>&, int64_t begin, int64_t end);
  void (*activation_backward)(const ActivationBackward<T>&, int64_t begin, int64_t end);
  double (*cross_entropy)(const CrossEntropy<T>&, int64_t begin, int64_t end);
  // Over (sequence, head) pairs; the buffer holds attention_buffer() floats.
  void (*attention)(const Attention<T>&, float* buffer, int64_t begin, int64_t end);
  void (*attention_backward)(const AttentionBackward<T>&, float* buffer, int64_t begin,
                             int64_t end);
  void (*column_sums)(const T* rows, int64_t width, float* sums, int64_t begin, int64_t end);
};

struct Kernels {
  const char* name;  // instruction set
  KernelsFor<float> fp32;
  KernelsFor<Bf16> bf16;
  bool fast_products;  // whether the products below outrun a BLAS library's
  void (*product_fp32)(const Product<float>&, float* buffer);
  void (*product_bf16)(const Product<Bf16>&, float* buffer);  // nullptr: no instruction for it
};

// Floats of scratch memory that one thread needs for attention and its backward pass.
int64_t attention_buffer(int64_t time, int64_t head_width, bool backward);

// The kernels of the best instruction set that this processor and its system have.
const Kernels& best();

template <typename T>
const KernelsFor<T>& of() {
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    return best().bf16;
  } else {
    return best().fp32;
  }
}

// By name, for tests; nullptr when this processor lacks it.
const Kernels* named(const char* name);

}  // namespace trainctl::kernels
