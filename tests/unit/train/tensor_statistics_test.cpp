#include "train/tensor_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainctl {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteValue = std::numeric_limits<float>::infinity();

TEST(TensorStatistics, LeaveOutWhatIsNotFiniteAndCountIt) {
  const TensorStatistics s = statistics_of(
      at::tensor({3.0F, kNan, -4.0F, kInfiniteValue, -kInfiniteValue, kInfiniteValue}));
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.mean, -0.5);
  EXPECT_EQ(s.norm, 5);
  EXPECT_EQ(s.nan_count, 1);
  EXPECT_EQ(s.infinite_count, 3);
}

TEST(TensorStatistics, OfNothingFiniteAreZero) {
  for (const at::Tensor& tensor : {at::empty({0}), at::full({2}, kNan)}) {
    const TensorStatistics s = statistics_of(tensor);
    EXPECT_EQ(s.min, 0);
    EXPECT_EQ(s.max, 0);
    EXPECT_EQ(s.mean, 0);
  }
}

TEST(TensorStatistics, AreTheSameInPiecesAndForEveryType) {
  const at::Tensor large = at::arange(5'000'000, at::kInt);
  const TensorStatistics s = statistics_of(large);
  EXPECT_EQ(s.max, 4'999'999);
  EXPECT_EQ(s.mean, 4'999'999 / 2.0);
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kUInt16, at::kHalf, at::kBFloat16,
        at::kUInt32, at::kDouble, at::kLong, at::kUInt64, at::kFloat8_e5m2, at::kFloat8_e4m3fn,
        at::kFloat8_e8m0fnu}) {
    const TensorStatistics one = statistics_of(at::ones({2, 3}).to(type));
    EXPECT_EQ(one.min, 1) << at::toString(type);
    EXPECT_EQ(one.mean, 1) << at::toString(type);
  }
}

TEST(TensorDifference, IsBitwiseWhereEveryBitAgrees) {
  const at::Tensor a = at::tensor({1.0F, kNan});
  EXPECT_TRUE(difference_of(a, a.clone()).bitwise);
  EXPECT_FALSE(difference_of(at::tensor({0.0F}), at::tensor({-0.0F})).bitwise);
  EXPECT_TRUE(difference_of(at::empty({0, 3}), at::empty({0, 3})).bitwise);
}

TEST(TensorDifference, IsMeasuredAgainstTheFirst) {
  const TensorDifference d = difference_of(at::tensor({3.0F, 4.0F}), at::tensor({3.0F, 4.5F}));
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(d.relative, 0.1);
  EXPECT_EQ(d.nonfinite, 0);
  EXPECT_TRUE(std::isinf(difference_of(at::zeros({2}), at::ones({2})).relative));
}

TEST(TensorDifference, CountsWhatIsNotFiniteOnOneSide) {
  const TensorDifference d =
      difference_of(at::tensor({1.0F, kNan, kInfiniteValue, kInfiniteValue}),
                    at::tensor({2.0F, kNan, kInfiniteValue, -kInfiniteValue}));
  EXPECT_EQ(d.nonfinite, 1);
  EXPECT_EQ(d.max_abs, 1);
}

}  // namespace
}  // namespace trainctl
