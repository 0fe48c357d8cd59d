// A random permutation that is computed, not stored.
#pragma once

#include <bit>
#include <cstdint>

#include "data/mix64.h"

namespace trainctl {

// A balanced Feistel network over 2·b bits (Luby and Rackoff 1988) permutes [0, 4^b); walking its
// cycle until it comes back below `size` restricts that to [0, size) (Black and Rogaway, "Ciphers
// with arbitrary finite domains", 2002, method 2). 4^b is below 4·size, so four walks are expected
// at most; small sizes use 256 all the same, because few-bit networks reach few of the
// permutations.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key) : size_(size), key_(key) {
    const auto bits = static_cast<int>(std::bit_width(size < 2 ? 1 : size - 1));
    half_bits_ = bits < 8 ? 4 : (bits + 1) / 2;
    mask_ = (uint64_t{1} << half_bits_) - 1;
  }

  uint64_t operator()(uint64_t index) const {
    do {
      index = encrypt(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr uint64_t kRounds = 8;  // four suffice for long halves, short ones want more

  uint64_t encrypt(uint64_t block) const {
    uint64_t left = block >> half_bits_, right = block & mask_;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix64(mix64(key_ + round) ^ right) & mask_);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t size_, key_, mask_ = 0;
  int half_bits_ = 0;
};

}  // namespace trainctl
