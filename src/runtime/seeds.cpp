#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

// One step of splitmix64 (Steele, Lea, Flood 2014), a bijection of 64 bits that passes BigCrush.
uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t derive_seed(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  // Each argument enters after a full mix of those before it, so that their order counts and
  // neighbouring steps or ranks share nothing.
  uint64_t state = splitmix64(seed);
  for (const uint64_t part : {a, b, c}) {
    state = splitmix64(state ^ part);
  }
  return state;
}

}  // namespace trainctl
