#pragma once

#include <cstdint>

namespace trainctl {

// One output of splitmix64 (Steele, Lea, Flood 2014): a bijection whose every output bit depends on
// every input bit. Values at consecutive x behave as a counter-based random generator.
inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A uniform number below `bound` from 64 random bits (Lemire 2019, without rejection: the bias is
// below bound / 2^64).
inline uint64_t below(uint64_t bound, uint64_t random) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(random) * bound) >> 64);
}

}  // namespace trainctl
