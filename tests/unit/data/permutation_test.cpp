#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace trainctl {
namespace {

TEST(Permutation, ReachesEveryIndexOnceAtEverySize) {
  std::vector<uint64_t> sizes = {1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 100003};
  for (uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const uint64_t size : sizes) {
    for (const uint64_t key : {0ull, 1ull, 0xFFFFFFFFFFFFFFFFull}) {
      const Permutation permute(size, key);
      std::vector<bool> seen(size, false);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t to = permute(i);
        ASSERT_LT(to, size);
        ASSERT_FALSE(seen[to]) << "size " << size << " key " << key;
        seen[to] = true;
      }
    }
  }
}

TEST(Permutation, WorksAtSizesNoListCouldHold) {
  for (const uint64_t size : {(1ull << 40) + 7, 1ull << 62}) {
    const Permutation permute(size, 3);
    for (uint64_t i = 0; i < 100; ++i) {
      EXPECT_LT(permute(i), size);
      EXPECT_NE(permute(i), permute(i + 1));
    }
  }
}

// Pearson's chi-square, as a number of standard deviations from its mean.
double chi_square_sigmas(const std::map<uint64_t, int>& counts, double cells, double total) {
  double sum = 0;
  const double expected = total / cells;
  for (const auto& [cell, count] : counts)
    sum += (count - expected) * (count - expected) / expected;
  sum += (cells - static_cast<double>(counts.size())) * expected;
  return (sum - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

TEST(Permutation, DrawsAllPermutationsOfASmallSizeEquallyOften) {
  for (const uint64_t size : {2ull, 3ull, 5ull}) {
    std::map<uint64_t, int> counts;
    const double cells = std::tgamma(static_cast<double>(size) + 1), total = cells * 500;
    for (uint64_t key = 0; static_cast<double>(key) < total; ++key) {
      const Permutation permute(size, key);
      uint64_t code = 0;
      for (uint64_t i = 0; i < size; ++i) code = code * size + permute(i);
      ++counts[code];
    }
    EXPECT_LT(std::abs(chi_square_sigmas(counts, cells, total)), 4) << size;
  }
}

TEST(Permutation, SendsEachIndexEverywhereEquallyOften) {
  for (const uint64_t size : {100ull, 1000ull, 1025ull}) {
    for (const uint64_t index : {uint64_t{0}, size / 2, size - 1}) {
      std::map<uint64_t, int> counts;
      const double total = static_cast<double>(size) * 50;
      for (uint64_t key = 0; static_cast<double>(key) < total; ++key)
        ++counts[Permutation(size, key)(index)];
      EXPECT_LT(std::abs(chi_square_sigmas(counts, static_cast<double>(size), total)), 4.5) << size;
    }
  }
}

TEST(Permutation, LeavesNoTraceOfTheOldOrder) {
  // Of a random permutation the number of fixed points, and of neighbours that stay neighbours, is
  // Poisson with mean 1 and 2; the correlation of i and p(i) is about ±1/√n.
  constexpr uint64_t kSize = 2000, kKeys = 400;
  double fixed = 0, neighbours = 0;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permute(kSize, key);
    double correlation = 0;
    for (uint64_t i = 0; i < kSize; ++i) {
      const auto at = static_cast<double>(permute(i));
      fixed += permute(i) == i;
      if (i + 1 < kSize) neighbours += std::abs(at - static_cast<double>(permute(i + 1))) == 1;
      correlation += (static_cast<double>(i) - (kSize - 1) / 2.0) * (at - (kSize - 1) / 2.0);
    }
    correlation /= kSize * (kSize * static_cast<double>(kSize) - 1) / 12;
    ASSERT_LT(std::abs(correlation), 5 / std::sqrt(static_cast<double>(kSize))) << key;
  }
  EXPECT_NEAR(fixed / kKeys, 1, 4 * std::sqrt(1.0 / kKeys));
  EXPECT_NEAR(neighbours / kKeys, 2, 4 * std::sqrt(2.0 / kKeys));
}

}  // namespace
}  // namespace trainctl
