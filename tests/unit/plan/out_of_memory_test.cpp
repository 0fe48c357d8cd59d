#include "trainctl/plan/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Stage = OutOfMemoryMoment::Stage;

// As LibTorch 2.11's CUDACachingAllocator writes it.
constexpr const char* kCudaText =
    "CUDA out of memory. Tried to allocate 7.63 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 4.20 GiB is free. Process 4242 has 40.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 34.90 GiB memory in use. Of the allocated memory 30.00 GiB is "
    "allocated by PyTorch, and 4.40 GiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.";
constexpr uint64_t kGiB = uint64_t{1} << 30;

class OutOfMemoryText : public ::testing::Test {
 protected:
  OutOfMemoryText() {
    config_.model.vocab_size = 1000000;
    config_.training.micro_batch_size = 8;
    plan_.parameter_count = 260'000'000;
    plan_.batch = {8, 32, 4, 32 * 256};
    moment_.where = "step 1, forward pass of micro-batch 1 of 4";
    moment_.stage = Stage::kForward;
  }
  std::string text() { return out_of_memory_text(config_, plan_, moment_); }

  Config config_;
  RunPlan plan_;
  OutOfMemoryMoment moment_;
};

TEST_F(OutOfMemoryText, OnAGpuTellsWhereFiguresConsumersOthersAndTheNextSmallerBatch) {
  moment_.figures = *parse_out_of_memory(kCudaText);
  const std::string said = text();
  EXPECT_THAT(said, HasSubstr("CUDA out of memory in step 1, forward pass of micro-batch 1 of 4: "
                              "7.6 GiB more were asked for, 4.2 GiB are free of 79.1 GiB"));
  EXPECT_THAT(said, HasSubstr("process 4242: 40.0 GiB"));
  EXPECT_THAT(said, HasSubstr("2048 tokens × 1000000 classes"));
  EXPECT_LT(said.find("activations"), said.find("logits"));  // the largest first
  EXPECT_LT(said.find("logits  "), said.find("parameters  "));
  EXPECT_THAT(said, HasSubstr("training.micro_batch_size 4 instead of 8 "
                              "(gradient_accumulation_steps 8 keeps global_batch_size at 32)"));
  EXPECT_THAT(said, HasSubstr("expandable_segments"));
  EXPECT_THAT(said, HasSubstr("data.seq_len 128 instead of 256"));
}

TEST_F(OutOfMemoryText, InTheBackwardPassCountsGradients) {
  moment_.figures = *parse_out_of_memory(kCudaText);
  EXPECT_THAT(text(), Not(HasSubstr("gradients  ")));
  moment_.stage = Stage::kBackward;
  EXPECT_THAT(text(), HasSubstr("gradients  "));
  EXPECT_THAT(text(), HasSubstr("and their gradient"));
}

TEST_F(OutOfMemoryText, OnTheCpuNamesALimitOfThisProcess) {
  moment_.figures = *parse_out_of_memory(cpu_out_of_memory_text(3 * kGiB, 5 * kGiB));
  moment_.free = 60 * kGiB;
  moment_.total = 64 * kGiB;
  moment_.evidence.address_space_limit = 8 * kGiB;
  moment_.evidence.address_space_used = 7 * kGiB;
  EXPECT_THAT(text(), HasSubstr("3.0 GiB more were asked for, 60.0 GiB are free of 64.0 GiB; the "
                                "limit on address space (ulimit -v) is 8.0 GiB, of which 7.0 GiB"));
  EXPECT_THAT(text(), HasSubstr("ulimit -v unlimited"));
}

TEST_F(OutOfMemoryText, WhileBuildingOnlyTheModelCanShrink) {
  moment_.figures = *parse_out_of_memory(cpu_out_of_memory_text(3 * kGiB, 0));
  moment_.stage = Stage::kBuilding;
  EXPECT_THAT(text(), HasSubstr("lower model.vocab_size"));
  EXPECT_THAT(text(), Not(HasSubstr("micro_batch_size")));
  EXPECT_THAT(text(), Not(HasSubstr("logits  ")));
}

TEST_F(OutOfMemoryText, RanksOfOneHostAndTheirBucketsCount) {
  moment_.figures = *parse_out_of_memory(cpu_out_of_memory_text(3 * kGiB, 0));
  moment_.ranks = moment_.sharing_processes = 2;
  plan_.batch = {8, 32, 2, 32 * 256};
  EXPECT_THAT(text(), HasSubstr("gradient buckets"));
  EXPECT_THAT(text(), HasSubstr("of 2 processes"));
  EXPECT_THAT(text(), HasSubstr("gradient_accumulation_steps 4 keeps global_batch_size at 32"));
}

TEST(SmallerMicroBatch, KeepsTheGlobalBatch) {
  EXPECT_EQ(smaller_micro_batch({6, 12, 2, 0}, 1), 3);
  EXPECT_EQ(smaller_micro_batch({9, 27, 3, 0}, 1), 3);  // 4 does not divide 27
  EXPECT_EQ(smaller_micro_batch({1, 4, 4, 0}, 1), 0);
  EXPECT_EQ(smaller_micro_batch({5, 20, 2, 0}, 2), 2);
}

}  // namespace
}  // namespace trainctl
