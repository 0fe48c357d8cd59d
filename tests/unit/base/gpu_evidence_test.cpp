#include "trainctl/base/gpu_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace trainctl {
namespace {

using ::testing::HasSubstr;

GpuEvidence healthy() {
  GpuEvidence evidence;
  evidence.gpu_on_pci_bus = true;
  evidence.kernel_module = true;
  evidence.kernel_driver = "580.65.06";
  evidence.gpu_nodes = 2;
  evidence.control_node = evidence.uvm_node = true;
  evidence.libcuda_tried = true;
  evidence.driver_cuda = 13000;
  evidence.runtime_cuda = 13000;
  evidence.unit_present = true;
  return evidence;
}

struct VerdictCase {
  const char* name;
  void (*change)(GpuEvidence*);
  GpuVerdict verdict;
  const char* cause;
  const char* cure;
};

void remove_nodes(GpuEvidence* e) {
  e->gpu_nodes = 0;
  e->control_node = e->uvm_node = false;
}

const VerdictCase kCases[] = {
    {"Usable", [](GpuEvidence*) {}, GpuVerdict::kUsable, "", ""},
    {"NewerDriver", [](GpuEvidence* e) { e->driver_cuda = 14020; }, GpuVerdict::kUsable, "", ""},
    {"OlderMinorVersion", [](GpuEvidence* e) { e->runtime_cuda = 13020; }, GpuVerdict::kUsable, "",
     ""},
    {"ForwardCompatibility", [](GpuEvidence* e) { e->kernel_driver = "550.54.14"; },
     GpuVerdict::kUsable, "", ""},
    {"OneVisible", [](GpuEvidence* e) { e->cuda_visible_devices = "1"; }, GpuVerdict::kUsable, "",
     ""},
    {"VisibleByUuid", [](GpuEvidence* e) { e->cuda_visible_devices = "GPU-8932f937"; },
     GpuVerdict::kUsable, "", ""},
    {"Wsl",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->kernel_module = e->gpu_on_pci_bus = false;
       e->wsl = e->wsl_node = true;
     },
     GpuVerdict::kUsable, "", ""},
    {"HiddenByEmpty", [](GpuEvidence* e) { e->cuda_visible_devices = ""; }, GpuVerdict::kHidden,
     "CUDA_VISIBLE_DEVICES=\"\" hides every GPU", "unset it"},
    {"HiddenByMinusOne", [](GpuEvidence* e) { e->cuda_visible_devices = "-1"; },
     GpuVerdict::kHidden, "\"-1\"", "unset it"},
    {"NoGpu",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->kernel_module = e->gpu_on_pci_bus = false;
     },
     GpuVerdict::kNoGpu, "no NVIDIA GPU found", "NVIDIA driver 580 or newer"},
    {"NoGpuInContainer",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->kernel_module = e->gpu_on_pci_bus = false;
       e->container = "docker";
     },
     GpuVerdict::kNoGpu, "no NVIDIA GPU found", "--gpus all"},
    {"DockerWithoutGpus",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->container = "docker";
     },
     GpuVerdict::kContainerWithoutGpu, "docker container was started without access", "--gpus all"},
    {"PodWithoutRequest",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->container = "kubernetes";
     },
     GpuVerdict::kContainerWithoutGpu, "kubernetes container", "nvidia.com/gpu: 1"},
    {"PodmanWithoutDevice",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->container = "podman";
     },
     GpuVerdict::kContainerWithoutGpu, "podman container", "--device nvidia.com/gpu=all"},
    {"ApptainerWithoutNv",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->container = "apptainer";
     },
     GpuVerdict::kContainerWithoutGpu, "apptainer container", "--nv"},
    {"NoDriver",
     [](GpuEvidence* e) {
       remove_nodes(e);
       e->kernel_module = false;
     },
     GpuVerdict::kDriverMissing, "no NVIDIA driver is loaded", "install NVIDIA driver 580"},
    {"NoNodes", remove_nodes, GpuVerdict::kDeviceNodesMissing, "/dev/nvidia0", "nvidia-modprobe"},
    {"NoUvmNode", [](GpuEvidence* e) { e->uvm_node = false; }, GpuVerdict::kDeviceNodesMissing,
     "/dev/nvidia-uvm is missing", "nvidia-modprobe -u"},
    {"NoControlNode", [](GpuEvidence* e) { e->control_node = false; },
     GpuVerdict::kDeviceNodesMissing, "/dev/nvidiactl is missing", "nvidia-modprobe"},
    {"NoLibcuda",
     [](GpuEvidence* e) {
       e->libcuda_error = "libcuda.so.1: cannot open shared object file: No such file or directory";
     },
     GpuVerdict::kDriverLibraryMissing, "libcuda.so.1 was not found", "NVIDIA driver 580"},
    {"NoLibcudaInContainer",
     [](GpuEvidence* e) {
       e->libcuda_error = "libcuda.so.1: cannot open shared object file: No such file or directory";
       e->container = "docker";
     },
     GpuVerdict::kDriverLibraryMissing, "libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES=compute"},
    {"NoLibcudaInWsl",
     [](GpuEvidence* e) {
       e->libcuda_error = "libcuda.so.1: cannot open shared object file: No such file or directory";
       e->wsl = true;
     },
     GpuVerdict::kDriverLibraryMissing, "libcuda.so.1", "in Windows"},
    {"BrokenLibcuda", [](GpuEvidence* e) { e->libcuda_error = "libcuda.so.1: file too short"; },
     GpuVerdict::kDriverLibraryMissing, "file too short", "reinstall"},
    {"DriverTooOld",
     [](GpuEvidence* e) {
       e->driver_cuda = 12040;
       e->kernel_driver = "550.54.14";
     },
     GpuVerdict::kDriverTooOld, "550.54.14 serves CUDA up to 12.4, this LibTorch needs CUDA 13.0",
     "NVIDIA driver 580"},
    {"DriverTooOldForTwelve",
     [](GpuEvidence* e) {
       e->driver_cuda = 11040;
       e->runtime_cuda = 12080;
     },
     GpuVerdict::kDriverTooOld, "needs CUDA 12.8", "NVIDIA driver 525.60.13"},
    {"CpuOnlyLibTorch", [](GpuEvidence* e) { e->runtime_cuda = 0; }, GpuVerdict::kCpuOnlyLibTorch,
     "CPU-only build", "scripts/setup.sh"},
    {"NoUnit", [](GpuEvidence* e) { e->unit_present = false; }, GpuVerdict::kUnitMissing,
     "libtrainctl_cuda.so", "TRAINCTL_CUDA=ON"},
};

class DecideGpu : public ::testing::TestWithParam<VerdictCase> {};

TEST_P(DecideGpu, NamesCauseAndCure) {
  GpuEvidence evidence = healthy();
  GetParam().change(&evidence);
  const GpuDecision decision = decide_gpu(evidence);
  EXPECT_EQ(static_cast<int>(decision.verdict), static_cast<int>(GetParam().verdict))
      << decision.why.text();
  EXPECT_THAT(decision.why.cause, HasSubstr(GetParam().cause));
  EXPECT_THAT(decision.why.cure, HasSubstr(GetParam().cure));
  EXPECT_EQ(decision.why.cause.empty(), GetParam().verdict == GpuVerdict::kUsable);
}

INSTANTIATE_TEST_SUITE_P(All, DecideGpu, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

class GatherGpuEvidence : public ::testing::Test {
 protected:
  GatherGpuEvidence()
      : root_(fs::temp_directory_path() / ("trainctl_gpu_" + std::to_string(::getpid()))) {}
  void SetUp() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    fs::remove_all(root_);
  }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  fs::path root_;
};

TEST_F(GatherGpuEvidence, EmptyMachineHasNothingAndLoadsNothing) {
  const GpuEvidence evidence = gather_gpu_evidence(root_);
  EXPECT_FALSE(evidence.gpu_on_pci_bus);
  EXPECT_FALSE(evidence.kernel_module);
  EXPECT_EQ(evidence.gpu_nodes, 0);
  EXPECT_FALSE(evidence.libcuda_tried);
  EXPECT_FALSE(evidence.cuda_visible_devices.has_value());
}

TEST_F(GatherGpuEvidence, FindsNvidiaDisplayControllersOnly) {
  write("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n");
  write("sys/bus/pci/devices/0000:00:01.0/class", "0x030000\n");
  write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x10de\n");  // an NVSwitch or sound part
  write("sys/bus/pci/devices/0000:00:02.0/class", "0x068000\n");
  EXPECT_FALSE(gather_gpu_evidence(root_).gpu_on_pci_bus);
  write("sys/bus/pci/devices/0000:00:03.0/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:00:03.0/class", "0x030200\n");
  EXPECT_TRUE(gather_gpu_evidence(root_).gpu_on_pci_bus);
}

TEST_F(GatherGpuEvidence, CountsNumberedNodes) {
  for (const char* node :
       {"nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"}) {
    write(std::string("dev/") + node, "");
  }
  const GpuEvidence evidence = gather_gpu_evidence(root_);
  EXPECT_EQ(evidence.gpu_nodes, 3);
  EXPECT_TRUE(evidence.control_node);
  EXPECT_TRUE(evidence.uvm_node);
  EXPECT_TRUE(evidence.libcuda_tried);
}

TEST_F(GatherGpuEvidence, ReadsTheDriverVersionOfBothKinds) {
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
        "GCC version:  gcc version 12.2.0\n");
  EXPECT_EQ(gather_gpu_evidence(root_).kernel_driver, "550.54.14");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
  EXPECT_EQ(gather_gpu_evidence(root_).kernel_driver, "580.65.06");
  EXPECT_TRUE(gather_gpu_evidence(root_).kernel_module);
}

TEST_F(GatherGpuEvidence, FromADockerRootToItsVerdict) {
  write(".dockerenv", "");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06\n");
  EXPECT_EQ(static_cast<int>(decide_gpu(gather_gpu_evidence(root_)).verdict),
            static_cast<int>(GpuVerdict::kContainerWithoutGpu));
}

TEST(ExplainCudaStatus, KnowsFabricManagerAndOldDrivers) {
  const Explanation fabric =
      explain_cuda_status(802, "cudaErrorSystemNotReady", "system not yet initialized", healthy());
  EXPECT_THAT(fabric.text(), HasSubstr("Fabric Manager"));
  EXPECT_THAT(fabric.text(), HasSubstr("CUDA error 802, cudaErrorSystemNotReady"));
  GpuEvidence old = healthy();
  old.kernel_driver = "550.54.14";
  old.driver_cuda = 12040;
  EXPECT_THAT(
      explain_cuda_status(35, "cudaErrorInsufficientDriver", "", old).text(),
      HasSubstr(
          "the NVIDIA driver 550.54.14 serves CUDA up to 12.4, this LibTorch needs CUDA 13.0"));
}

TEST(ExplainCudaStatus, PassesOnWhatItDoesNotKnow) {
  EXPECT_THAT(explain_cuda_status(4242, "cudaErrorOdd", "odd things", healthy()).text(),
              HasSubstr("odd things (CUDA error 4242, cudaErrorOdd)"));
}

}  // namespace
}  // namespace trainctl
