#include "launch/visible_devices.h"

#include "launch/node_plan.h"
#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FakeRoot& gpu_machine() {
  static FakeRoot root;
  static const bool made = [] {
    const char* uuids[] = {"GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb1111-0000",
                           "GPU-cccc1111-0000"};
    for (int i = 0; i < 4; ++i) {
      root.write("proc/driver/nvidia/gpus/0000:" + std::to_string(10 + i) + ":00.0/information",
                 std::string("Model: \t\t NVIDIA H200\nGPU UUID:   \t ") + uuids[i] +
                     "\nDevice Minor: \t " + std::to_string(i) + "\n");
    }
    return true;
  }();
  EXPECT_TRUE(made);
  return root;
}

std::vector<std::string> seen(const char* variable) {
  std::vector<std::string> names;
  const auto list = variable != nullptr ? std::optional<std::string>(variable) : std::nullopt;
  for (const auto& device : visible_devices(list, present_gpus(gpu_machine().path())).devices)
    names.push_back(device.name);
  return names;
}

TEST(VisibleDevices, WithoutTheVariableAllAreSeen) {
  EXPECT_THAT(seen(nullptr), ElementsAre("0", "1", "2", "3"));
}

TEST(VisibleDevices, NumbersNamesAndMigDevicesCount) {
  EXPECT_THAT(seen("2,0"), ElementsAre("2", "0"));
  EXPECT_THAT(seen(" 1 , 3 "), ElementsAre("1", "3"));
  EXPECT_THAT(seen("GPU-aaaa1111-0000,GPU-b"), ElementsAre("GPU-aaaa1111-0000", "GPU-b"));
  EXPECT_THAT(seen("MIG-11,MIG-22,MIG-33"), ElementsAre("MIG-11", "MIG-22", "MIG-33"));
  EXPECT_THAT(seen("MIG-GPU-aaaa1111-0000/1/0"), ElementsAre("MIG-GPU-aaaa1111-0000/1/0"));
}

TEST(VisibleDevices, AsForCudaTheListEndsAtWhatNamesNothing) {
  EXPECT_THAT(seen("0,1,7,2"), ElementsAre("0", "1"));
  EXPECT_THAT(seen("0,-1,2"), ElementsAre("0"));
  EXPECT_THAT(seen("-1"), IsEmpty());
  EXPECT_THAT(seen(""), IsEmpty());
  EXPECT_THAT(seen("NoDevFiles"), IsEmpty());
  EXPECT_THAT(seen("GPU-dddd"), IsEmpty());
  EXPECT_THAT(seen("GPU-aaaa"), IsEmpty());  // the start of two
  EXPECT_THAT(seen("1,1"), IsEmpty());
  EXPECT_THAT(seen("0,GPU-aaaa1"), IsEmpty());  // the same one under two names
}

TEST(VisibleDevices, DeviceFilesCountWhereTheDriverTellsNothing) {
  FakeRoot root;
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset"})
    root.write(std::string("dev/") + name, "");
  EXPECT_EQ(present_gpus(root.path()).size(), 2u);
  // Names cannot be checked there.
  EXPECT_EQ(visible_devices("GPU-any", present_gpus(root.path())).devices.size(), 1u);
}

class GpuPlan : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
  NodePlan plan(const std::vector<std::string>& words, const std::string& device,
                const char* variable = nullptr) {
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (variable != nullptr) setenv("CUDA_VISIBLE_DEVICES", variable, 1);
    LaunchJob job;
    job.options = parse_launch_command_line(words, environment_of({})).options;
    job.target.kind = device.empty() ? TargetKind::kScript : TargetKind::kConfig;
    job.device = device;
    return make_node_plan(job, environment_of({}), gpu_machine().path());
  }
  std::string refused(const std::vector<std::string>& words, const std::string& device,
                      const char* variable = nullptr) {
    return refusal([&] { plan(words, device, variable); });
  }
};

TEST_F(GpuPlan, AutoAndGpuCountTheVisibleOnes) {
  EXPECT_EQ(plan({"--nproc", "gpu", "c.json"}, "auto").ranks, 4);
  EXPECT_EQ(plan({"--nproc", "gpu", "c.json"}, "cuda", "1,3").ranks, 2);
  EXPECT_EQ(plan({"--nproc", "auto", "x.py"}, "", "1,3").ranks, 2);
}

TEST_F(GpuPlan, AutoDoesNotCountGpusForAConfigOnTheCpu) {
  const auto cpus = plan({"--nproc", "cpu", "c.json"}, "cpu").ranks;
  EXPECT_EQ(plan({"--nproc", "auto", "c.json"}, "cpu").ranks, cpus);
}

TEST_F(GpuPlan, MoreRanksThanGpusIsRefusedNamingTheVariable) {
  EXPECT_THAT(refused({"--nproc", "3", "c.json"}, "cuda", "0,1"),
              AllOf(HasSubstr("3 ranks"), HasSubstr("CUDA_VISIBLE_DEVICES=\"0,1\" shows 2 GPUs")));
  EXPECT_THAT(refused({"--nproc", "5", "c.json"}, "auto"), HasSubstr("this machine has 4 GPUs"));
  EXPECT_THAT(refused({"--nproc", "3", "c.json"}, "auto", "0,1,9"), HasSubstr("no GPU 9"));
  EXPECT_EQ(refused({"--nproc", "4", "c.json"}, "auto"), "");
}

TEST_F(GpuPlan, TheCpuAndForeignProgramsMayHaveMoreRanks) {
  EXPECT_EQ(plan({"--nproc", "9", "c.json"}, "cpu").ranks, 9);
  EXPECT_EQ(plan({"--nproc", "9", "x.py"}, "").ranks, 9);
  EXPECT_EQ(plan({"--nproc", "9", "c.json"}, "auto", "").ranks, 9);  // no GPU is seen
}

TEST_F(GpuPlan, OneNamedGpuForSeveralRanksIsRefused) {
  EXPECT_THAT(refused({"--nproc", "2", "c.json"}, "cuda:1"), HasSubstr("cuda:1"));
}

TEST_F(GpuPlan, VirtualLocalRanksGetADeviceEach) {
  EXPECT_THAT(plan({"--nproc", "2", "--virtual-local-rank", "x.py"}, "", "3,GPU-b").own_devices,
              ElementsAre("3", "GPU-b"));
  EXPECT_THAT(plan({"--nproc", "2", "--virtual-local-rank", "x.py"}, "").own_devices,
              ElementsAre("0", "1"));
  EXPECT_THAT(refused({"--nproc", "3", "--virtual-local-rank", "x.py"}, "", "0,1"),
              AllOf(HasSubstr("--virtual-local-rank"), HasSubstr("shows 2 GPUs")));
}

TEST_F(GpuPlan, MigDevicesAreHandedOutOnePerRank) {
  EXPECT_THAT(plan({"--nproc", "2", "c.json"}, "cuda", "MIG-1,MIG-2").own_devices,
              ElementsAre("MIG-1", "MIG-2"));
  EXPECT_THAT(plan({"--nproc", "2", "x.py"}, "", "MIG-1,MIG-2").own_devices, IsEmpty());
}

TEST_F(GpuPlan, StreamsOfRanksThatAreNotThereAreRefused) {
  EXPECT_THAT(refused({"--nproc", "2", "--local-ranks-filter", "0,2", "x.py"}, ""),
              HasSubstr("--local-ranks-filter names local rank 2"));
  EXPECT_THAT(refused({"--nproc", "2", "--tee", "5:3", "x.py"}, ""), HasSubstr("--tee names"));
  EXPECT_EQ(refused({"--nproc", "2", "--redirects", "1:3", "x.py"}, ""), "");
}

}  // namespace
}  // namespace trainctl
