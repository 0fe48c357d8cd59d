// Tensors as memory for the kernels: made and read without the dispatcher, which small models feel.
#pragma once

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <type_traits>

#include "model/ops/block_state.h"
#include "model/ops/kernels/kernels.h"

namespace trainctl::ops {

// Below this many elements per thread, waking a thread costs more than it brings.
inline constexpr int64_t kElementsPerThread = 32768;

template <typename T>
constexpr at::ScalarType kScalarType = std::is_same_v<T, float> ? at::kFloat : at::kBFloat16;

template <typename T>
at::Tensor empty(at::IntArrayRef shape) {
  return at::detail::empty_cpu(shape, kScalarType<T>);
}

template <typename T>
const T* read(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

inline const float* read_optional(const at::Tensor& tensor) {
  return tensor.defined() ? read<float>(tensor) : nullptr;
}

template <typename T>
T* write(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

template <typename T>
at::Tensor in_type(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<T, float>) {
    return tensor;
  } else {
    return tensor.to(at::kBFloat16);
  }
}

template <typename T>
kernels::Attention<T> describe_attention(const BlockState& s) {
  kernels::Attention<T> attention{};
  attention.qkv = read<T>(s.qkv_n3d);
  attention.out = write<T>(s.heads_nd);
  attention.log_sum = write<float>(s.log_sum_bht);
  attention.batch = s.batch;
  attention.time = s.time;
  attention.heads = s.options.n_heads;
  attention.head_width = s.width / s.options.n_heads;
  attention.causal = s.options.causal;
  attention.dropout = s.attention_dropout;
  return attention;
}

// Heads of attention that are worth a thread.
inline int64_t items_per_thread(const BlockState& s) {
  const int64_t work = s.time * s.time * (s.width / s.options.n_heads);
  return std::max<int64_t>(1, (int64_t{1} << 19) / work);
}

}  // namespace trainctl::ops
