#include "trainctl/plan/slow_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SlowPaths : public ::testing::Test {
 protected:
  SlowPaths() {
    config_.model.d_model = 512;
    config_.model.n_heads = 8;
    config_.model.d_ff = 2048;
    config_.model.vocab_size = 50304;
    plan_.parameter_count = 50'000'000;
    plan_.batch = {8, 32, 4, 32 * 256};
    facts_.attention = "flash (auto)";
    facts_.cpu_capability = "AVX512";
  }
  void on_gpu() {
    facts_.cuda = facts_.tf32 = facts_.fast_bf16 = true;
    config_.precision.dtype = Dtype::kBf16;
  }
  std::vector<std::string> ids() {
    std::vector<std::string> names;
    for (const SlowPath& path : slow_paths(config_, plan_, facts_)) {
      names.emplace_back(path.id);
      EXPECT_THAT(path.warning, HasSubstr("; "));  // what; cure
    }
    return names;
  }
  std::string only() {
    const auto found = slow_paths(config_, plan_, facts_);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].warning;
  }

  Config config_;
  RunPlan plan_;
  SlowPathFacts facts_;
};

TEST_F(SlowPaths, NoneOnAWellSetMachine) {
  EXPECT_THAT(ids(), IsEmpty());
  on_gpu();
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, Tf32OffOnAGpuThatHasIt) {
  on_gpu();
  config_.precision.dtype = Dtype::kFp32;
  EXPECT_THAT(only(), HasSubstr("float32_matmul_precision to \"high\""));
  config_.precision.float32_matmul_precision = MatmulPrecision::kHigh;
  EXPECT_THAT(ids(), IsEmpty());
  config_.precision.float32_matmul_precision = MatmulPrecision::kHighest;
  facts_.tf32 = false;  // Turing
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, VocabularyThatTensorCoresDoNotLike) {
  on_gpu();
  config_.model.vocab_size = 50257;
  EXPECT_THAT(only(), HasSubstr("model.vocab_size 50257"));
  EXPECT_THAT(only(), HasSubstr("50304"));
  config_.model.vocab_size = 257;  // too few to count
  EXPECT_THAT(ids(), IsEmpty());
  config_.model.vocab_size = 50257;
  facts_.cuda = false;
  EXPECT_THAT(ids(), Not(Contains("odd-vocabulary")));
}

TEST_F(SlowPaths, WidthsThatFastKernelsDoNotLike) {
  on_gpu();
  config_.model.d_ff = 2050;
  EXPECT_THAT(only(), HasSubstr("model.d_ff 2050 is no multiple of 8"));
  config_.model.d_ff = 2048;
  config_.model.n_heads = 128;
  EXPECT_THAT(only(), HasSubstr("head size"));
  facts_ = SlowPathFacts{};
  config_.model.n_heads = 8;
  config_.model.d_model = 520;
  EXPECT_THAT(only(), HasSubstr("model.d_model 520 is no multiple of 16"));
  plan_.parameter_count = 1000;
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, MathAttentionWhereAFusedOneServes) {
  on_gpu();
  facts_.attention = "math";
  config_.backend.attention = AttentionBackend::kMath;
  EXPECT_THAT(only(), HasSubstr("backend.attention"));
  config_.backend.attention = AttentionBackend::kAuto;
  facts_.attention = "math (auto)";
  EXPECT_THAT(only(), HasSubstr("no fused attention kernel"));
  facts_.cuda = false;
  facts_.fast_bf16 = false;
  config_.backend.attention = AttentionBackend::kMath;
  facts_.attention = "math";
  EXPECT_THAT(ids(), ElementsAre("math-attention"));
  config_.model.dropout = 0.1;  // flash has none on a CPU
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, Fp32OnAProcessorWithFastBf16) {
  facts_.fast_bf16 = true;
  EXPECT_THAT(only(), HasSubstr("precision.dtype to \"bf16\""));
  config_.precision.dtype = Dtype::kBf16;
  EXPECT_THAT(ids(), IsEmpty());
  config_.precision.dtype = Dtype::kFp32;
  config_.model.d_model = 256;  // narrow models gain little
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, FewThreadsNamesWhatSetsThem) {
  facts_.processors = 8;
  facts_.threads = 1;
  config_.backend.threads = 1;
  EXPECT_THAT(only(), HasSubstr("1 thread computes where 8 processors"));
  EXPECT_THAT(only(), HasSubstr("set backend.threads to 0"));
  config_.backend.threads = 0;
  EXPECT_THAT(only(), HasSubstr("OMP_NUM_THREADS"));
  facts_.threads = 5;
  EXPECT_THAT(ids(), IsEmpty());
}

TEST_F(SlowPaths, OthersByTheirFacts) {
  facts_.optimized_build = false;
  facts_.cpu_capability = "DEFAULT";
  facts_.varying_shapes = "shapes vary; set x";
  config_.data.workers = 0;
  EXPECT_THAT(ids(), ElementsAre("debug-build", "old-kernels"));
  on_gpu();
  EXPECT_THAT(ids(), ElementsAre("debug-build", "cudnn-benchmark", "loading-in-the-loop"));
}

TEST_F(SlowPaths, ValidationThatTakesLongerThanTraining) {
  config_.validation.interval = {10, 0};
  facts_.validation_sequences = 100000;
  EXPECT_THAT(only(), HasSubstr("each validation reads 100000 sequences after 320 of training"));
  config_.validation.max_batches = 20;
  EXPECT_THAT(ids(), IsEmpty());
  config_.validation.max_batches = 0;
  config_.validation.interval = {0, 600};
  EXPECT_THAT(ids(), IsEmpty());
}

}  // namespace
}  // namespace trainctl
