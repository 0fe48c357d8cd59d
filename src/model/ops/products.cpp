#include "model/ops/products.h"

#include "model/ops/kernels/kernels.h"
#include "model/ops/threads.h"

namespace trainctl::ops {
namespace {

using kernels::Bf16;

int64_t rows_of(const at::Tensor& t) { return t.numel() / t.size(-1); }
int64_t stride_of(const at::Tensor& t) { return t.dim() == 1 ? t.size(0) : t.stride(-2); }

template <typename T>
T* data(const at::Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

// Below this many multiply-adds per thread, waking a thread costs more than it brings.
constexpr int64_t kWorkPerThread = int64_t{1} << 20;

// Note [Choice of matrix kernels]
// A fixed rule by processor and shape, never a measurement, so that equal runs take equal paths.
// With AVX-512 our own products reach 90 to 95 % of the peak at every shape that a layer brings
// (docs/performance.md), where MKL on AMD processors takes AVX2 paths and oneDNN is slow on small
// shapes. Without it they lose to the libraries on large shapes, but not the library's call and
// set-up on small ones.
constexpr int64_t kLargeProduct = int64_t{1} << 20;

bool takes_own(int64_t work, bool bf16) {
  const kernels::Kernels& best = kernels::best();
  if (bf16) return best.product_bf16 != nullptr;
  return best.fast_products || work < kLargeProduct;
}

float* product_buffer() {
  // Threads of OpenMP live as long as the process.
  constexpr size_t kAlignment = 64;
  static thread_local const std::unique_ptr<float[]> memory(
      new float[kernels::kProductBuffer + kAlignment / sizeof(float)]);
  void* start = memory.get();
  size_t space = (kernels::kProductBuffer + kAlignment / sizeof(float)) * sizeof(float);
  return static_cast<float*>(
      std::align(kAlignment, kernels::kProductBuffer * sizeof(float), start, space));
}

// The rows [begin, end) of the product.
template <typename T>
kernels::Product<T> rows_part(kernels::Product<T> p, int64_t begin, int64_t end) {
  p.m = end - begin;
  p.a += begin * (p.a_transposed ? 1 : p.a_stride);
  if (p.c32 != nullptr) p.c32 += begin * p.c_stride;
  if (p.c16 != nullptr) p.c16 += begin * p.c_stride;
  return p;
}

template <typename T>
kernels::Product<T> columns_part(kernels::Product<T> p, int64_t begin, int64_t end) {
  p.n = end - begin;
  p.b += begin * (p.b_transposed ? p.b_stride : 1);
  if (p.c32 != nullptr) p.c32 += begin;
  if (p.c16 != nullptr) p.c16 += begin;
  if (p.bias != nullptr) p.bias += begin;
  return p;
}

void run_part(const kernels::Product<float>& p) {
  kernels::best().product_fp32(p, product_buffer());
}
void run_part(const kernels::Product<Bf16>& p) {
  kernels::best().product_bf16(p, product_buffer());
}

template <typename T>
void run(const kernels::Product<T>& p) {
  const int64_t parts = parts_of(p.m * p.n * p.k, kWorkPerThread);
  if (parts <= 1) return run_part(p);
  constexpr int64_t kStep = 64;  // whole tiles and cache lines
  const bool by_rows = p.m >= p.n;
  const int64_t steps = ((by_rows ? p.m : p.n) + kStep - 1) / kStep;
  for_parts(steps, std::min(parts, steps), [&](int64_t, int64_t first, int64_t last) {
    const int64_t begin = first * kStep, end = std::min(last * kStep, by_rows ? p.m : p.n);
    run_part(by_rows ? rows_part(p, begin, end) : columns_part(p, begin, end));
  });
}

template <typename T>
kernels::Product<T> describe(const Factor& a, const Factor& b, const at::Tensor& bias,
                             const at::Tensor& out, bool accumulate) {
  kernels::Product<T> p{};
  p.bias = bias.defined() ? data<float>(bias) : nullptr;
  p.a = data<T>(a.tensor);
  p.b = data<T>(b.tensor);
  p.a_stride = stride_of(a.tensor);
  p.b_stride = stride_of(b.tensor);
  p.a_transposed = a.transposed;
  p.b_transposed = b.transposed;
  p.m = a.transposed ? a.tensor.size(-1) : rows_of(a.tensor);
  p.k = a.transposed ? rows_of(a.tensor) : a.tensor.size(-1);
  p.n = b.transposed ? rows_of(b.tensor) : b.tensor.size(-1);
  p.c_stride = stride_of(out);
  p.accumulate = accumulate;
  if (out.scalar_type() == at::kFloat) {
    p.c32 = data<float>(out);
  } else {
    p.c16 = data<Bf16>(out);
  }
  return p;
}

at::Tensor as_matrix(const Factor& f) {
  const at::Tensor matrix = f.tensor.view({-1, f.tensor.size(-1)});
  return f.transposed ? matrix.t() : matrix;
}

void library_product(const Factor& a, const Factor& b, const at::Tensor& bias,
                     const at::Tensor& out, bool accumulate) {
  at::Tensor matrix = out.view({-1, out.size(-1)});
  const at::Tensor left = as_matrix(a), right = as_matrix(b);
  const bool one_type = left.scalar_type() == matrix.scalar_type();
  if (accumulate && one_type) {
    matrix.addmm_(left, right);
  } else if (accumulate) {
    matrix.add_(at::mm(left, right));
  } else if (one_type) {
    at::mm_out(matrix, left, right);
  } else {
    matrix.copy_(at::mm(left, right));
  }
  if (bias.defined()) matrix.add_(bias);
}

void product_of(const Factor& a, const Factor& b, const at::Tensor& bias, const at::Tensor& out,
                bool accumulate) {
  const bool bf16 = a.tensor.scalar_type() == at::kBFloat16;
  if (!bf16) {
    const auto p = describe<float>(a, b, bias, out, accumulate);
    return takes_own(p.m * p.n * p.k, false) ? run(p)
                                             : library_product(a, b, bias, out, accumulate);
  }
  const auto p = describe<Bf16>(a, b, bias, out, accumulate);
  if (!takes_own(p.m * p.n * p.k, true)) return library_product(a, b, bias, out, accumulate);
  if (p.c16 == nullptr || p.k <= kernels::kMaxUnsplitBf16) return run(p);
  const at::Tensor sums = at::empty(out.sizes(), out.options().dtype(at::kFloat));
  run(describe<Bf16>(a, b, bias, sums, false));
  at::Tensor(out).copy_(sums);
}

}  // namespace

bool fast_products(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return kernels::best().product_bf16 != nullptr;
  return dtype == at::kFloat;
}

void product(const Factor& a, const Factor& b, const at::Tensor& out, bool accumulate) {
  product_of(a, b, {}, out, accumulate);
}

void product(const Factor& a, const Factor& b, const at::Tensor& bias, const at::Tensor& out) {
  product_of(a, b, bias, out, false);
}

}  // namespace trainctl::ops
