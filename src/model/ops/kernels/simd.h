// Arithmetic in the compiler's vector types, one register wide: one source for every instruction
// set.
//
// Included only by kernels compiled for one instruction set each (kernels_*.cpp), inside that set's
// namespace. No function of the standard library is called here: an inline one compiled with
// AVX-512 could be the copy that the linker keeps for the whole program.

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));
typedef float FloatsUnaligned __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef uint16_t HalvesUnaligned __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

#define TRAINCTL_INLINE static inline __attribute__((always_inline))

TRAINCTL_INLINE Floats splat(float value) { return Floats{} + value; }
TRAINCTL_INLINE Words as_bits(Floats x) { return reinterpret_cast<Words>(x); }
TRAINCTL_INLINE Floats as_float(Words x) { return reinterpret_cast<Floats>(x); }
TRAINCTL_INLINE Floats select(Ints mask, Floats yes, Floats no) { return mask ? yes : no; }
TRAINCTL_INLINE Floats maximum(Floats a, Floats b) { return a > b ? a : b; }
TRAINCTL_INLINE Floats minimum(Floats a, Floats b) { return a < b ? a : b; }

TRAINCTL_INLINE Floats load(const float* p) { return *reinterpret_cast<const FloatsUnaligned*>(p); }
TRAINCTL_INLINE void store(float* p, Floats x) { *reinterpret_cast<FloatsUnaligned*>(p) = x; }

// bf16 is the upper half of a float; rounding to nearest even, NaN stays NaN.
TRAINCTL_INLINE Floats load(const Bf16* p) {
  const Halves half = *reinterpret_cast<const HalvesUnaligned*>(p);
  return as_float(__builtin_convertvector(half, Words) << 16);
}

TRAINCTL_INLINE Halves round_to_bf16(Floats x) {
#if defined(__AVX512BF16__)
  // One instruction, which takes subnormal numbers for zero.
  return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
#else
  const Words bits = as_bits(x);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words result = (x == x) ? rounded : (Words{} + 0x7fc0u);
  return __builtin_convertvector(result, Halves);
#endif
}

TRAINCTL_INLINE void store(Bf16* p, Floats x) {
  *reinterpret_cast<HalvesUnaligned*>(p) = round_to_bf16(x);
}

TRAINCTL_INLINE float load_scalar(const float* p) { return *p; }
TRAINCTL_INLINE float load_scalar(const Bf16* p) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(p->bits) << 16);
}
TRAINCTL_INLINE void store_scalar(float* p, float x) { *p = x; }
TRAINCTL_INLINE void store_scalar(Bf16* p, float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded_bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  p->bits = static_cast<uint16_t>(x == x ? rounded_bits : 0x7fc0u);
}

// The first `count` lanes, all if there are more; `fill` in the others.
template <typename T>
TRAINCTL_INLINE Floats load_some(const T* p, int64_t count, float fill) {
  if (count >= kLanes) return load(p);
  float lane[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lane[i] = i < count ? load_scalar(p + i) : fill;
  return load(lane);
}

template <typename T>
TRAINCTL_INLINE void store_some(T* p, int64_t count, Floats x) {
  if (count >= kLanes) return store(p, x);
  float lane[kLanes];
  store(lane, x);
  for (int64_t i = 0; i < count; ++i) store_scalar(p + i, lane[i]);
}

// What a store and a load would make of x.
template <typename T>
TRAINCTL_INLINE Floats rounded(Floats x) {
  if constexpr (sizeof(T) == 2) {
    return as_float(__builtin_convertvector(round_to_bf16(x), Words) << 16);
  } else {
    return x;
  }
}

TRAINCTL_INLINE Words lane_numbers() {
#if defined(__AVX512F__)
  return Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
  return Words{0, 1, 2, 3, 4, 5, 6, 7};
#else
  return Words{0, 1, 2, 3};
#endif
}

TRAINCTL_INLINE Floats rotate_lanes(Floats x, uint32_t by) {
  return __builtin_shuffle(x, reinterpret_cast<Ints>((lane_numbers() + by) & (kLanes - 1)));
}

TRAINCTL_INLINE float sum_lanes(Floats x) {
#pragma GCC unroll 4
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) x += rotate_lanes(x, half);
  return x[0];
}

TRAINCTL_INLINE float max_lanes(Floats x) {
#pragma GCC unroll 4
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) x = maximum(x, rotate_lanes(x, half));
  return x[0];
}

// e^x to 1e-7 relative: 2^n times a polynomial on ±ln2/2 (Cephes' expf). Below -87 the result is
// about 1e-38 instead of a subnormal number or zero; above 88 it stays finite. NaN goes through.
TRAINCTL_INLINE Floats exponential(Floats x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  const Floats shifted = x * 1.44269504088896341f + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * as_float((as_bits(shifted) + 127u) << 23);
}

// erf(x) as a ratio of polynomials on ±4, beyond which fp32 knows only ±1 (Eigen's coefficients).
TRAINCTL_INLINE Floats error_function(Floats x) {
  x = x < -4.0f ? splat(-4.0f) : x;
  x = x > 4.0f ? splat(4.0f) : x;
  const Floats y = x * x;
  Floats p = y * -2.72614225801306e-10f + 2.77068142495902e-08f;
  p = p * y + -2.10102402082508e-06f;
  p = p * y + -5.69250639462346e-05f;
  p = p * y + -7.34990630326855e-04f;
  p = p * y + -2.95459980854025e-03f;
  p = p * y + -1.60960333262415e-02f;
  Floats q = y * -1.45660718464996e-05f + -2.13374055278905e-04f;
  q = q * y + -1.68282697438203e-03f;
  q = q * y + -7.37332916720468e-03f;
  q = q * y + -1.42647390514189e-02f;
  return x * p / q;
}

// Dropout's coin for element `index`: a hash of (key, index), so that the backward pass draws the
// same mask again instead of reading a stored one, whatever the thread count. Two rounds of a
// 32-bit mixer with full avalanche (Wellons' lowbias32), one per half of the key.
TRAINCTL_INLINE Words mix_bits(Words h) {
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  return h ^ (h >> 16);
}

TRAINCTL_INLINE Floats drop(Floats x, const Dropout& dropout, int64_t index) {
  const uint64_t wide = static_cast<uint64_t>(index);
  Words h = lane_numbers() + static_cast<uint32_t>(wide);
  h = mix_bits(h + dropout.key_low);
  h = mix_bits((h ^ dropout.key_high) + static_cast<uint32_t>(wide >> 32));
  return select(h >= dropout.threshold, x * dropout.scale, Floats{});
}
