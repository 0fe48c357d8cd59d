#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "trainctl/base/error.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;

std::string header_value(const std::vector<std::pair<std::string, std::string>>& lines,
                         const std::string& label) {
  for (const auto& [name, value] : lines) {
    if (name == label) {
      return value;
    }
  }
  return "(no line " + label + ")";
}

class BackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("OMP_NUM_THREADS");
    unsetenv("SLURM_CPUS_PER_TASK");
    set_log_sink([this](LogLevel level, const std::string& text) {
      if (level == LogLevel::kWarning) {
        warnings_.push_back(text);
      }
    });
  }
  void TearDown() override {
    apply_backend(Config(), at::kCPU);
    set_log_sink({});
    unsetenv("OMP_NUM_THREADS");
  }
  std::string line(const std::string& label) {
    return header_value(apply_backend(config_, at::kCPU), label);
  }
  std::string usage_message() {
    try {
      apply_backend(config_, at::kCPU);
    } catch (const UserError& e) {
      EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(ExitCode::kUsage));
      return e.what();
    }
    return "(no error)";
  }
  Config config_;
  std::vector<std::string> warnings_;
};

TEST_F(BackendTest, ThreadsComeFromTheBudgetUnlessSet) {
  EXPECT_THAT(line("threads"), HasSubstr(std::to_string(cpu_budget().usable) + " ("));
  EXPECT_EQ(at::get_num_threads(), cpu_budget().usable);
  config_.backend.threads = 1;
  EXPECT_THAT(line("threads"), HasSubstr("1 (backend.threads"));
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
}

TEST_F(BackendTest, ThreadsFollowOmpNumThreadsOfTheLauncher) {
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_THAT(line("threads"), HasSubstr("1 (OMP_NUM_THREADS"));
  EXPECT_EQ(at::get_num_threads(), 1);
  setenv("OMP_NUM_THREADS", "4,2", 1);  // OpenMP's nested form says nothing about one level
  EXPECT_EQ(line("threads").find("OMP_NUM_THREADS"), std::string::npos);
}

TEST_F(BackendTest, MoreThreadsThanProcessorsWarn) {
  config_.backend.threads = cpu_budget().usable + 1;
  line("threads");
  EXPECT_THAT(warnings_, ::testing::ElementsAre(HasSubstr("usually much slower")));
}

TEST_F(BackendTest, MatmulPrecisionReachesAten) {
  const std::pair<MatmulPrecision, at::Float32MatmulPrecision> cases[] = {
      {MatmulPrecision::kMedium, at::Float32MatmulPrecision::MEDIUM},
      {MatmulPrecision::kHigh, at::Float32MatmulPrecision::HIGH},
      {MatmulPrecision::kHighest, at::Float32MatmulPrecision::HIGHEST}};
  for (const auto& [precision, aten] : cases) {
    config_.precision.float32_matmul_precision = precision;
    line("fp32 matmul");
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), aten);
  }
  EXPECT_EQ(line("fp32 matmul"), "highest (fp32)");
}

TEST_F(BackendTest, CudnnSwitchesReachAten) {
  config_.backend.cudnn_benchmark = true;
  config_.backend.cudnn_allow_tf32 = false;
  EXPECT_THAT(line("cuDNN"), HasSubstr("benchmark on, deterministic off, TF32 off"));
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
  config_.backend.cudnn_benchmark = false;
  config_.backend.cudnn_allow_tf32 = true;
  config_.backend.cudnn_deterministic = true;
  EXPECT_THAT(line("cuDNN"), HasSubstr("benchmark off, deterministic on, TF32 on"));
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST_F(BackendTest, DeterministicTurnsEverythingOnAndBenchmarkOffWithAWarning) {
  config_.backend.deterministic = true;
  config_.backend.cudnn_benchmark = true;
  EXPECT_EQ(line("deterministic"), "on");
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  EXPECT_THAT(warnings_,
              ::testing::ElementsAre(HasSubstr("backend.cudnn_benchmark is turned off")));
  config_.backend = BackendConfig();
  EXPECT_EQ(line("deterministic"), "off");
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
}

TEST_F(BackendTest, AutomaticAttentionNamesTheKernelInUse) {
  EXPECT_EQ(line("attention"), "own, else flash (auto)");
  config_.model.dropout = 0.1;  // ATen's flash kernel for CPU has no dropout
  EXPECT_EQ(line("attention"), "own, else math (auto)");
}

TEST_F(BackendTest, ChosenAttentionIsTheOnlyOneEnabled) {
  config_.backend.attention = AttentionBackend::kMath;
  EXPECT_EQ(line("attention"), "math");
  EXPECT_TRUE(at::globalContext().userEnabledMathSDP());
  EXPECT_FALSE(at::globalContext().userEnabledFlashSDP());
  config_.backend.attention = AttentionBackend::kFlash;
  EXPECT_EQ(line("attention"), "flash");
  EXPECT_FALSE(at::globalContext().userEnabledMathSDP());
  EXPECT_TRUE(at::globalContext().userEnabledFlashSDP());
}

TEST_F(BackendTest, AttentionThatCpuDoesNotHaveIsRefusedByName) {
  config_.backend.attention = AttentionBackend::kCudnn;
  EXPECT_EQ(usage_message(),
            "backend.attention: \"cudnn\" does not exist on CPU; set one of: auto, flash, math");
  config_.backend.attention = AttentionBackend::kEfficient;
  EXPECT_THAT(usage_message(), HasSubstr("\"efficient\" does not exist on CPU"));
}

TEST_F(BackendTest, AttentionThatCannotServeTheModelIsRefused) {
  config_.backend.attention = AttentionBackend::kFlash;
  config_.model.dropout = 0.1;
  EXPECT_EQ(usage_message(),
            "backend.attention: \"flash\" cannot serve this model on CPU with fp32, head size 32, "
            "dropout; set one of: auto, math");
}

}  // namespace
}  // namespace trainctl
