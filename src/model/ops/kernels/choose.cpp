#include <cstring>
#include <initializer_list>

#include "model/ops/kernels/kernels.h"

namespace trainctl::kernels {

namespace generic {
const Kernels& table(const char* name);
}
#ifdef __x86_64__
namespace avx2 {
const Kernels& table(const char* name);
}
namespace avx512 {
const Kernels& table(const char* name);
}
namespace avx512bf16 {
const Kernels& table(const char* name);
}
#endif

int64_t attention_buffer(int64_t time, int64_t head_width, bool backward) {
  constexpr int64_t kLanes = 16, kRows = 64;
  const int64_t columns = (time + kLanes - 1) / kLanes * kLanes;
  return backward ? 8 * columns * head_width + 2 * kRows * columns
                  : 4 * columns * head_width + kRows * columns;
}

const Kernels* named(const char* name) {
#ifdef __x86_64__
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (std::strcmp(name, "avx512bf16") == 0) {
    return avx512 && __builtin_cpu_supports("avx512bf16") ? &avx512bf16::table("avx512bf16")
                                                          : nullptr;
  }
  if (std::strcmp(name, "avx512") == 0) return avx512 ? &avx512::table("avx512") : nullptr;
  if (std::strcmp(name, "avx2") == 0) {
    const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return has ? &avx2::table("avx2") : nullptr;
  }
#endif
  return std::strcmp(name, "generic") == 0 ? &generic::table("generic") : nullptr;
}

const Kernels& best() {
  static const Kernels* const chosen = [] {
    for (const char* name : {"avx512bf16", "avx512", "avx2"}) {
      if (const Kernels* kernels = named(name)) return kernels;
    }
    return named("generic");
  }();
  return *chosen;
}

}  // namespace trainctl::kernels
