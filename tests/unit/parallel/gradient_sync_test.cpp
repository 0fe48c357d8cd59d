#include "trainctl/parallel/gradient_sync.h"

#include <gmock/gmock.h>

#include "rank_threads.h"
#include "trainctl/model/model.h"
#include "trainctl/parallel/parameter_check.h"

namespace trainctl {
namespace {

using testing::Each;
using testing::HasSubstr;

// Two matrices, of which a loss may reach one only.
class TwoHeads final : public Model {
 public:
  explicit TwoHeads(double value = 1) {
    parameters_.push_back({"body.weight", at::full({4, 3}, value).requires_grad_(true)});
    parameters_.push_back({"head.weight", at::full({3, 2}, value).requires_grad_(true)});
  }
  at::Tensor logits(const at::Tensor& x) override {
    return x.matmul(parameters_[0].tensor).matmul(parameters_[1].tensor);
  }
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor&, double) override {
    return logits(x).sum();
  }
  void set_training(bool) override {}

  at::Tensor body_loss(const at::Tensor& x) { return x.matmul(parameters_[0].tensor).sum(); }
  at::Tensor grad(size_t i) const { return parameters_[i].tensor.grad(); }
  void release() {
    for (NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
  }
};

at::Tensor input(int64_t rank) { return at::full({1, 4}, static_cast<double>(rank + 1)); }

TEST(GradientSync, SumsOverRanksAndMicroBatchesInTheLastOneOnly) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    TwoHeads model;
    const auto sync = c.make_gradient_sync(model.parameters(), ParallelConfig());
    const int64_t rank = c.world().rank;
    for (int step = 0; step < 3; ++step) {
      model.release();
      sync->backward(model.loss_sum(input(rank), {}, 0), /*last=*/false);
      // d loss / d body = x · head row sums = (rank + 1) · 2
      EXPECT_EQ(model.grad(0)[0][0].item<double>(), 2.0 * static_cast<double>(rank + 1));
      sync->backward(model.loss_sum(input(rank), {}, 0), /*last=*/true);
      EXPECT_EQ(model.grad(0)[0][0].item<double>(), 2 * 2.0 * (1 + 2 + 3));
      EXPECT_GE(sync->own_seconds(), 0);
    }
  });
  EXPECT_EQ(errors, kNoErrors3);
}

TEST(GradientSync, NamesAParameterThatTheLossDoesNotReach) {
  const auto errors = RankThreads().run(2, [](Communicator& c) {
    TwoHeads model;
    const auto sync = c.make_gradient_sync(model.parameters(), ParallelConfig());
    sync->backward(model.body_loss(input(0)), /*last=*/true);
  });
  EXPECT_THAT(errors, Each(HasSubstr("does not reach head.weight")));
  EXPECT_THAT(errors, Each(HasSubstr("parallel.find_unused_parameters")));
}

TEST(GradientSync, TakesUnreachedParametersAsZeroWhenAsked) {
  ParallelConfig config;
  config.find_unused_parameters = true;
  const auto errors = RankThreads().run(2, [&](Communicator& c) {
    TwoHeads model;
    const auto sync = c.make_gradient_sync(model.parameters(), config);
    const int64_t rank = c.world().rank;
    for (int step = 0; step < 3; ++step) {
      model.release();
      // Only rank 1 reaches the head.
      sync->backward(rank == 0 ? model.body_loss(input(0)) : model.loss_sum(input(1), {}, 0), true);
      EXPECT_EQ(model.grad(0)[0][0].item<double>(), 1 + 2 * 2);
      EXPECT_EQ(model.grad(1)[0][0].item<double>(), 2 * 4);
      model.release();
      // No rank does.
      sync->backward(model.body_loss(input(rank)), true);
      EXPECT_EQ(model.grad(0)[0][0].item<double>(), 1 + 2);
      EXPECT_FALSE(model.grad(1).defined());
    }
  });
  EXPECT_EQ(errors, kNoErrors2);
}

TEST(GradientSync, CompressedSumsStayInRangeAndAreEqualOnAllRanks) {
  for (const auto compression : {GradientCompression::kBf16, GradientCompression::kFp16}) {
    ParallelConfig config;
    config.compression = compression;
    const auto errors = RankThreads().run(2, [&](Communicator& c) {
      TwoHeads model;
      const auto sync = c.make_gradient_sync(model.parameters(), config);
      // 2 × 40000 is beyond fp16's 65504, the values themselves are not.
      sync->backward(model.loss_sum(input(0) * 20000, {}, 0), true);
      EXPECT_NEAR(model.grad(0)[0][0].item<double>(), 80000, 300);
    });
    EXPECT_EQ(errors, kNoErrors2);
  }
}

TEST(CheckParametersEqual, NamesTheFirstThatDiffersAndTheRanks) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    TwoHeads model;
    check_parameters_equal(model, c, 0);
    const at::NoGradGuard no_grad;
    if (c.world().rank == 2) model.parameters()[1].tensor[0][0].fill_(7);
    check_parameters_equal(model, c, 41);
  });
  EXPECT_THAT(errors[0],
              HasSubstr("after step 41: 'head.weight' differs from rank 0's on rank 2."));
  EXPECT_THAT(errors[1], HasSubstr("because rank 0 failed"));
}

}  // namespace
}  // namespace trainctl
