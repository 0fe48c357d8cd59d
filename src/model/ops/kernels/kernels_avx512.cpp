// The kernels for one instruction set: this file's compiler flags are its own (src/CMakeLists.txt),
// and nothing but the kernels may be compiled with them (simd.h).
#include "model/ops/kernels/kernels.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions only

namespace trainctl::kernels::avx512 {
#include "model/ops/kernels/simd.h"
//
#include "model/ops/kernels/product.h"
//
#include "model/ops/kernels/rows.h"
//
#include "model/ops/kernels/cross_entropy.h"
//
#include "model/ops/kernels/attention.h"
//
#include "model/ops/kernels/instantiate.h"
}  // namespace trainctl::kernels::avx512
