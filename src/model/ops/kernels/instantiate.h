// The table of this instruction set's kernels. Included last in its namespace.

template <typename T>
static KernelsFor<T> kernels_for() {
  return {norm_forward<T>,       norm_backward<T>,       branch_backward<T>,
          activation_forward<T>, activation_backward<T>, cross_entropy<T>,
          attention<T>,          attention_backward<T>,  column_sums<T>};
}

const Kernels& table(const char* name) {
#if defined(__AVX512F__)
  constexpr bool kFastProducts = true;
#else
  constexpr bool kFastProducts = false;
#endif
#if defined(__AVX512BF16__)
  constexpr auto kProductBf16 = product<Bf16Pair, Bf16>;
#else
  constexpr auto kProductBf16 = nullptr;
#endif
  static const Kernels kernels = {name,          kernels_for<float>(),      kernels_for<Bf16>(),
                                  kFastProducts, product<FloatWord, float>, kProductBf16};
  return kernels;
}
