// Matrix products. Included as simd.h is.
//
// The unit of k is a word of 32 bits: one float, or two neighbouring bf16 values, which AVX512-BF16
// multiplies and adds in one step. A strip of columns of b is packed into a panel that stays in the
// cache; a tile of rows of a runs over it with the sums in registers (Goto and van de Geijn 2008,
// without packing a: it is read one word at a time, from the cache).

// Rows of a tile, by its number of vectors: sums, one row of b and one splat fill the registers, of
// which AVX-512 has 32, the others 16.
#if defined(__AVX512F__)
constexpr int64_t kTileVectors = 4;
constexpr int kTileRows[] = {0, 12, 12, 8, 6};
#elif defined(__AVX2__)
constexpr int64_t kTileVectors = 2;
constexpr int kTileRows[] = {0, 6, 6};
#else
constexpr int64_t kTileVectors = 4;
constexpr int kTileRows[] = {0, 2, 2, 2, 2};
#endif
constexpr int64_t kStripColumns = kTileVectors * kLanes;

struct FloatWord {
  typedef float Type;
  static constexpr int64_t kValues = 1;
  TRAINCTL_INLINE void multiply_add(Floats* sum, const float* left, const float* right) {
    *sum += splat(*left) * load(right);
  }
};

#if defined(__AVX512BF16__)
struct Bf16Pair {
  typedef uint32_t Type;
  static constexpr int64_t kValues = 2;
  TRAINCTL_INLINE void multiply_add(Floats* sum, const uint32_t* left, const uint32_t* right) {
    const Words pair = Words{} + *left;
    Words row;
    __builtin_memcpy(&row, right, sizeof(row));
    *sum = reinterpret_cast<Floats>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(*sum),
                                                     reinterpret_cast<__m512bh>(pair),
                                                     reinterpret_cast<__m512bh>(row)));
  }
};
#endif

template <typename Word>
struct Operands {
  const typename Word::Type* a;
  int64_t row_step, k_step;  // of a, in words
  const typename Word::Type* b;
  int64_t b_stride;
  int64_t k;  // words
};

template <typename Word, int M, int V, typename C>
TRAINCTL_INLINE void product_tile(const Operands<Word>& o, int64_t row, C* c, int64_t c_stride,
                                  const float* bias, bool accumulate) {
  // What c holds is added at the end: short chains of additions round less.
  Floats sum[M][V];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sum[m][v] = bias == nullptr ? Floats{} : load(bias + v * kLanes);
    }
  }
  const typename Word::Type* a = o.a + row * o.row_step;
  const typename Word::Type* b = o.b;
  for (int64_t k = 0; k < o.k; ++k) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Word::multiply_add(&sum[m][v], a + m * o.row_step, b + v * kLanes);
      }
    }
    a += o.k_step;
    b += o.b_stride;
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      C* to = c + (row + m) * c_stride + v * kLanes;
      store(to, accumulate ? load(to) + sum[m][v] : sum[m][v]);
    }
  }
}

template <typename Word, int V, typename C>
static void product_strip(const Operands<Word>& o, int64_t rows, C* c, int64_t c_stride,
                          const float* bias, bool accumulate) {
  int64_t row = 0;
  for (; row + kTileRows[V] <= rows; row += kTileRows[V]) {
    product_tile<Word, kTileRows[V], V>(o, row, c, c_stride, bias, accumulate);
  }
  for (; row + 4 <= rows; row += 4) product_tile<Word, 4, V>(o, row, c, c_stride, bias, accumulate);
  for (; row + 2 <= rows; row += 2) product_tile<Word, 2, V>(o, row, c, c_stride, bias, accumulate);
  for (; row < rows; ++row) product_tile<Word, 1, V>(o, row, c, c_stride, bias, accumulate);
}

// A strip of at most kStripColumns columns, given by its number of vectors.
template <typename Word, typename C>
TRAINCTL_INLINE void product_strip(int64_t vectors, const Operands<Word>& o, int64_t rows, C* c,
                                   int64_t c_stride, const float* bias, bool accumulate) {
  if (vectors >= kTileVectors) {
    product_strip<Word, static_cast<int>(kTileVectors)>(o, rows, c, c_stride, bias, accumulate);
  } else if (vectors == 1) {
    product_strip<Word, 1>(o, rows, c, c_stride, bias, accumulate);
  } else if constexpr (kTileVectors > 2) {
    if (vectors == 2) product_strip<Word, 2>(o, rows, c, c_stride, bias, accumulate);
    if (vectors == 3) product_strip<Word, 3>(o, rows, c, c_stride, bias, accumulate);
  }
}

static void small_product(int64_t m, int64_t n, int64_t k, const float* a, int64_t row_step,
                          int64_t k_step, const float* b, int64_t b_stride, float* c,
                          int64_t c_stride, bool accumulate) {
  for (int64_t column = 0; column < n; column += kStripColumns) {
    const Operands<FloatWord> o{a, row_step, k_step, b + column, b_stride, k};
    product_strip((n - column) / kLanes, o, m, c + column, c_stride, nullptr, accumulate);
  }
}

// A square of kLanes rows and columns, transposed in place: as many perfect shuffles as the number
// of lanes has bits.
TRAINCTL_INLINE void transpose_square(Floats (&r)[kLanes]) {
  Ints low = {}, high = {};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    low[i] = static_cast<int32_t>(i / 2 + (i % 2) * kLanes);
    high[i] = low[i] + static_cast<int32_t>(kLanes / 2);
  }
#pragma GCC unroll 4
  for (int64_t stage = 1; stage < kLanes; stage *= 2) {
    Floats next[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(r[i], r[i + kLanes / 2], low);
      next[2 * i + 1] = __builtin_shuffle(r[i], r[i + kLanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) r[i] = next[i];
  }
}

// panel[k][j] = rows[j][k] for j < kLanes; rows from `count` on read as zero.
TRAINCTL_INLINE void pack_transposed(const float* rows, int64_t row_stride, int64_t count,
                                     int64_t k, float* panel, int64_t panel_stride) {
  for (int64_t k0 = 0; k0 < k; k0 += kLanes) {
    Floats r[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) {
      r[j] = j < count ? load_some(rows + j * row_stride + k0, k - k0, 0.0f) : Floats{};
    }
    transpose_square(r);
    const int64_t last = k - k0 < kLanes ? k - k0 : kLanes;
    for (int64_t i = 0; i < last; ++i) store(panel + (k0 + i) * panel_stride, r[i]);
  }
}

constexpr int64_t kPackedRows = 192;  // of a transposed a, packed at a time
constexpr int64_t kPanelWords = 512;  // of k in a panel: 128 KiB, in the second-level cache

TRAINCTL_INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// The columns [0, count) of b at word k0, kStripColumns wide, zeros at the right.
TRAINCTL_INLINE void pack_panel(const Product<float>& p, int64_t k0, int64_t words, int64_t column,
                                float* panel) {
  const int64_t count = at_most(p.n - column, kStripColumns);
  if (p.b_transposed) {
    for (int64_t j = 0; j < count; j += kLanes) {
      pack_transposed(p.b + (column + j) * p.b_stride + k0, p.b_stride, count - j, words, panel + j,
                      kStripColumns);
    }
    return;
  }
  for (int64_t k = 0; k < words; ++k) {
    const float* from = p.b + (k0 + k) * p.b_stride + column;
    for (int64_t j = 0; j < count; j += kLanes) {
      store(panel + k * kStripColumns + j, load_some(from + j, count - j, 0.0f));
    }
  }
}

// Rows [row, row + rows) of a transposed a, side by side for each word of k.
TRAINCTL_INLINE void pack_rows(const Product<float>& p, int64_t k0, int64_t words, int64_t row,
                               int64_t rows, float* packed) {
  for (int64_t w = 0; w < words; ++w) {
    const float* from = p.a + (k0 + w) * p.a_stride + row;
    for (int64_t i = 0; i < rows; i += kLanes) {
      store(packed + w * kPackedRows + i, load_some(from + i, rows - i, 0.0f));
    }
  }
}

#if defined(__AVX512BF16__)
// Two rows side by side as pairs; row1 may be absent.
TRAINCTL_INLINE void interleave_rows(const Bf16* row0, const Bf16* row1, int64_t count,
                                     uint32_t* pairs) {
  for (int64_t j = 0; j < count; j += kLanes) {
    const Words low = as_bits(load_some(row0 + j, count - j, 0.0f)) >> 16;
    const Words high = row1 == nullptr ? Words{} : as_bits(load_some(row1 + j, count - j, 0.0f));
    const Words both = low | (high & 0xffff0000u);
    __builtin_memcpy(pairs + j, &both, sizeof(both));
  }
}

TRAINCTL_INLINE void pack_panel(const Product<Bf16>& p, int64_t k0, int64_t words, int64_t column,
                                uint32_t* panel) {
  const int64_t count = at_most(p.n - column, kStripColumns);
  if (p.b_transposed) {
    for (int64_t j = 0; j < count; j += kLanes) {
      // Bits move through the shuffles unchanged, whatever float they would mean.
      const Bf16* rows = p.b + (column + j) * p.b_stride + 2 * k0;
      pack_transposed(reinterpret_cast<const float*>(rows), p.b_stride / 2, count - j, words,
                      reinterpret_cast<float*>(panel) + j, kStripColumns);
    }
    return;
  }
  for (int64_t w = 0; w < words; ++w) {
    const int64_t k = 2 * (k0 + w);
    const Bf16* row = p.b + k * p.b_stride + column;
    interleave_rows(row, k + 1 < p.k ? row + p.b_stride : nullptr, count,
                    panel + w * kStripColumns);
  }
}

TRAINCTL_INLINE void pack_rows(const Product<Bf16>& p, int64_t k0, int64_t words, int64_t row,
                               int64_t rows, uint32_t* packed) {
  for (int64_t w = 0; w < words; ++w) {
    const int64_t k = 2 * (k0 + w);
    const Bf16* from = p.a + k * p.a_stride + row;
    interleave_rows(from, k + 1 < p.k ? from + p.a_stride : nullptr, rows,
                    packed + w * kPackedRows);
  }
}
#endif

template <typename Word, typename T>
static void product(const Product<T>& p, float* buffer) {
  typedef typename Word::Type Type;
  constexpr int64_t kValues = Word::kValues;
  Type* panel = reinterpret_cast<Type*>(buffer);
  Type* packed = panel + kPanelWords * kStripColumns;
  const int64_t all_words = (p.k + kValues - 1) / kValues;
  const int64_t row_block = p.a_transposed ? kPackedRows : p.m;
  for (int64_t k0 = 0; k0 < all_words; k0 += kPanelWords) {
    const int64_t words = at_most(all_words - k0, kPanelWords);
    const bool add = p.accumulate || k0 > 0;
    for (int64_t row = 0; row < p.m; row += row_block) {
      const int64_t rows = at_most(p.m - row, row_block);
      Operands<Word> o;
      o.k = words;
      o.b = panel;
      o.b_stride = kStripColumns;
      if (p.a_transposed) {
        // In place, its columns would lie a row apart, on few sets of the cache.
        pack_rows(p, k0, words, row, rows, packed);
        o.a = packed;
        o.row_step = 1;
        o.k_step = kPackedRows;
      } else {
        o.a = reinterpret_cast<const Type*>(p.a) + row * (p.a_stride / kValues) + k0;
        o.row_step = p.a_stride / kValues;
        o.k_step = 1;
      }
      for (int64_t column = 0; column < p.n; column += kStripColumns) {
        const int64_t vectors = (at_most(p.n - column, kStripColumns) + kLanes - 1) / kLanes;
        pack_panel(p, k0, words, column, panel);
        const float* bias = nullptr;
        float bias_strip[kStripColumns];
        if (p.bias != nullptr && k0 == 0) {
          for (int64_t j = 0; j < vectors * kLanes; j += kLanes) {
            store(bias_strip + j, load_some(p.bias + column + j, p.n - column - j, 0.0f));
          }
          bias = bias_strip;
        }
        if (p.c16 != nullptr) {  // one panel holds all of k (Product's contract)
          product_strip(vectors, o, rows, p.c16 + row * p.c_stride + column, p.c_stride, bias,
                        false);
        } else {
          product_strip(vectors, o, rows, p.c32 + row * p.c_stride + column, p.c_stride, bias, add);
        }
      }
    }
  }
}
