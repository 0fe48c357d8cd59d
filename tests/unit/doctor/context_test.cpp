#include <gmock/gmock.h>
#include <stdlib.h>

#include "doctor/context_evidence.h"
#include "doctor/context_variables.h"
#include "judging.h"
#include "support/testing.h"

namespace trainctl::doctor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

ContextEvidence good_context() {
  ContextEvidence context;
  context.program = {"0.1.0", "0.1.0+abc", "GNU 12.2.0", "Release", "", "2.11.0", "13.0"};
  context.system.machine = "x86_64";
  context.processor.model = "Processor";
  context.processor.instructions = {"avx2", "avx512f", "avx512_bf16"};
  context.usable_processors = 8;
  return context;
}

ContextEvidence with(const std::string& name, const std::string& value) {
  ContextEvidence context = good_context();
  context.variables[name] = value;
  return context;
}

std::string said_of(const std::string& id, const ContextEvidence& context,
                    const DoctorOptions& options = {}) {
  return said(judge(context_group(), id, context, options));
}

std::string found_by(const std::string& id, const ContextEvidence& context) {
  return judge(context_group(), id, context).found;
}

TEST(ContextProbes, FindNothingWhereAllIsWell) {
  for (const Probe& probe : context_group().probes) {
    EXPECT_EQ(said_of(probe.id, good_context()), "ok") << probe.id;
  }
}

TEST(ContextProbes, ProgramNamesItsBuild) {
  ContextEvidence context = good_context();
  EXPECT_EQ(found_by("context.program", context),
            "trainctl 0.1.0+abc, GNU 12.2.0 Release, LibTorch 2.11.0 for CUDA 13.0");
  context.program.torch_cuda = "none";
  EXPECT_THAT(found_by("context.program", context), HasSubstr("without CUDA"));
  context.program.build_type = "Debug";
  EXPECT_EQ(said_of("context.program", context), "warning slow-build");
  context.program.sanitizers = "address";
  EXPECT_THAT(judge(context_group(), "context.program", context).cause,
              HasSubstr("with sanitizers"));
}

TEST(ContextProbes, ProcessorAndItsInstructions) {
  ContextEvidence context = good_context();
  EXPECT_THAT(found_by("context.processor", context), HasSubstr("bf16 is fast"));
  context.processor.instructions = {"avx"};
  EXPECT_EQ(said_of("context.processor", context), "warning no-avx2");
  EXPECT_THAT(found_by("context.processor", context), HasSubstr("bf16 is slow"));
  context.system.machine = "aarch64";
  EXPECT_EQ(said_of("context.processor", context), "ok");
}

TEST(ContextProbes, Governor) {
  ContextEvidence context = good_context();
  context.processor.governor = "powersave";
  context.processor.frequency_driver = "intel_pstate";
  EXPECT_EQ(said_of("context.governor", context), "ok");
  context.processor.frequency_driver = "acpi-cpufreq";
  EXPECT_EQ(said_of("context.governor", context), "warning governor-powersave");
}

TEST(ContextProbes, ThreadsThatHurt) {
  EXPECT_EQ(said_of("context.threads", with("OMP_NUM_THREADS", "8")), "ok");
  EXPECT_EQ(said_of("context.threads", with("OMP_NUM_THREADS", "2")), "note");
  for (const char* wrong : {"64", "zero", "0", "-1", "1.5", "99999999999999999999"}) {
    EXPECT_EQ(said_of("context.threads", with("OMP_NUM_THREADS", wrong)), "warning threads-odd")
        << wrong;
  }
  EXPECT_EQ(said_of("context.threads", with("OMP_NUM_THREADS", "4,2")), "note");
  EXPECT_EQ(said_of("context.threads", with("MKL_NUM_THREADS", "100")), "warning threads-odd");
  EXPECT_EQ(said_of("context.threads", with("GOMP_CPU_AFFINITY", "0-3")), "warning threads-odd");
  EXPECT_EQ(said_of("context.threads", with("KMP_AFFINITY", "none")), "ok");
  ContextEvidence bound = with("OMP_PROC_BIND", "true");
  EXPECT_EQ(said_of("context.threads", bound), "ok");
  bound.variables["OMP_PLACES"] = "cores";
  EXPECT_EQ(said_of("context.threads", bound), "warning threads-odd");
}

TEST(ContextProbes, SlowVariablesAreAllNamed) {
  ContextEvidence context = with("CUDA_LAUNCH_BLOCKING", "1");
  context.variables["NCCL_DEBUG"] = "TRACE";
  context.variables["NVIDIA_TF32_OVERRIDE"] = "0";
  const Finding finding = judge(context_group(), "context.slow_variables", context);
  EXPECT_EQ(said(finding), "warning slow-variables");
  EXPECT_THAT(finding.cure, HasSubstr("CUDA_LAUNCH_BLOCKING NCCL_DEBUG NVIDIA_TF32_OVERRIDE"));
  EXPECT_EQ(said_of("context.slow_variables", with("CUDA_LAUNCH_BLOCKING", "0")), "ok");
  EXPECT_EQ(said_of("context.slow_variables", with("NCCL_DEBUG", "WARN")), "ok");
}

TEST(ContextProbes, AllocatorSettings) {
  const auto said_with = [](const std::string& value) {
    return said_of("context.allocator", with("PYTORCH_CUDA_ALLOC_CONF", value));
  };
  EXPECT_EQ(said_with("expandable_segments:True,max_split_size_mb:128"), "note");
  EXPECT_EQ(said_with("roundup_power2_divisions:[256:1,512:2,>:4]"), "note");
  EXPECT_EQ(said_with("expandable_segment:True"), "unfit allocator-setting-odd");
  EXPECT_EQ(said_with("expandable_segments"), "unfit allocator-setting-odd");
  const ContextEvidence typo = with("PYTORCH_ALLOC_CONF", "expandable_segment:True");
  EXPECT_THAT(judge(context_group(), "context.allocator", typo).cure,
              HasSubstr("did you mean expandable_segments?"));
  EXPECT_EQ(said_of("context.allocator", typo, for_cpu()), "warning allocator-setting-odd");
}

TEST(ContextProbes, PreloadsThatAreNotThere) {
  ContextEvidence context = with("LD_PRELOAD", "/nowhere/libx.so");
  EXPECT_EQ(said_of("context.preload", context), "note");
  context.missing_preloads = {"/nowhere/libx.so"};
  EXPECT_EQ(said_of("context.preload", context), "warning preload-missing");
}

TEST(ContextProbes, PlaceAmongRanks) {
  ContextEvidence context = good_context();
  context.place.problem = "RANK is 3, but WORLD_SIZE is not set";
  const Finding finding = judge(context_group(), "context.place", context);
  EXPECT_EQ(said(finding), "unfit launch-variables-odd");
  EXPECT_THAT(finding.cause, HasSubstr("RANK is 3"));
  context.place = {"torchrun", "", 1, 8, false};
  EXPECT_EQ(found_by("context.place", context), "rank 1 of 8, says torchrun");
}

TEST(ContextProbes, SlurmJobWithoutAStep) {
  ContextEvidence context = with("SLURM_JOB_ID", "7");
  EXPECT_EQ(said_of("context.slurm", context), "ok");
  context.variables["SLURM_NTASKS"] = "4";
  EXPECT_EQ(said_of("context.slurm", context), "note slurm-without-srun");
  context.place.slurm_step = true;
  EXPECT_EQ(said_of("context.slurm", context), "ok");
}

TEST(ContextProbes, Kubernetes) {
  EXPECT_EQ(found_by("context.kubernetes", with("KUBERNETES_SERVICE_HOST", "10.0.0.1")),
            "in a pod");
  EXPECT_EQ(found_by("context.kubernetes", good_context()), "no pod");
}

class ContextEvidenceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"RANK", "SLURM_JWT", "OMP_NUM_THREADS", "LD_PRELOAD"}) unsetenv(name);
  }
  FakeRoot root_;
};

TEST_F(ContextEvidenceTest, IsReadFromAMadeUpMachine) {
  root_.write("etc/os-release", "NAME=\"Rocky\"\nPRETTY_NAME=\"Rocky Linux 9.4\"\n");
  root_.write("proc/cpuinfo",
              "processor : 0\nmodel name\t: Fast CPU\nflags\t\t: fpu avx2 avx512f hypervisor\n"
              "processor : 1\nflags\t\t: amx_bf16\n");
  root_.write("sys/devices/system/node/online", "0-1\n");
  root_.write("sys/class/dmi/id/sys_vendor", "Vendor\n");
  root_.write("sys/class/dmi/id/product_name", "Model 5\n");
  root_.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  const ContextEvidence context = gather_context(root_.path());
  EXPECT_EQ(context.system.distribution, "Rocky Linux 9.4");
  EXPECT_EQ(context.system.product, "Vendor Model 5");
  EXPECT_TRUE(context.system.virtual_machine);
  EXPECT_EQ(context.processor.model, "Fast CPU");
  EXPECT_THAT(context.processor.instructions, ::testing::ElementsAre("avx2", "avx512f"));
  EXPECT_EQ(context.processor.numa_nodes, 2);
  EXPECT_EQ(context.processor.governor, "performance");
  EXPECT_FALSE(context.program.compiler.empty());
}

TEST_F(ContextEvidenceTest, KnowsContradictingVariablesAndKeepsSecretsOut) {
  setenv("RANK", "3", 1);
  setenv("SLURM_JWT", "secret", 1);
  setenv("OMP_NUM_THREADS", "2", 1);
  setenv("LD_PRELOAD", "/nowhere/libx.so libm.so.6", 1);
  const ContextEvidence context = gather_context(root_.path());
  EXPECT_THAT(context.place.problem, HasSubstr("RANK"));
  EXPECT_THAT(context.variables, Contains(Key("OMP_NUM_THREADS")));
  EXPECT_THAT(context.variables, Not(Contains(Key("SLURM_JWT"))));
  EXPECT_THAT(context.missing_preloads, ::testing::ElementsAre("/nowhere/libx.so"));
}

}  // namespace
}  // namespace trainctl::doctor
