// Settings with which a run works, but slower than this machine could: warnings at the start, each
// with its cure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/config/config.h"
#include "trainctl/plan/plan.h"

namespace trainctl {

struct SlowPathFacts {
  bool cuda = false;
  bool tf32 = false, fast_bf16 = false;  // what the device can, see Abilities
  int64_t threads = 1;                   // that compute
  int64_t processors = 1;                // this process's share of the usable ones
  std::string attention;                 // the header's value: "math", "flash (auto)"
  std::string cpu_capability;            // ATen's: "AVX512", "DEFAULT"
  std::string varying_shapes;            // see varying_shapes(); empty: they do not vary
  int64_t validation_sequences = 0;
  bool optimized_build = true;
};

struct SlowPath {
  const char* id;
  std::string warning;  // what is slow; what to set
};

std::vector<SlowPath> slow_paths(const Config& config, const RunPlan& plan,
                                 const SlowPathFacts& facts);

}  // namespace trainctl
