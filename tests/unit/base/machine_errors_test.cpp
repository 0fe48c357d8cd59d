// What libraries and tools say, as they say it, is found in the table of explanations.
#include <gtest/gtest.h>

#include "trainctl/base/explanations.h"

namespace trainctl {
namespace {

struct Said {
  const char* text;
  const char* explanation;
};

const Said kSaid[] = {
    {"CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"},
    {"RuntimeError: The NVIDIA driver on your system is too old (found version 11040)",
     "driver-too-old"},
    {"CUDA error: no CUDA-capable device is detected", "cuda-sees-no-gpu"},
    {"Error 802: system not yet initialized", "fabric-manager"},
    {"CUDA error: invalid device ordinal", "invalid-device-ordinal"},
    {"libcudart.so.13: cannot open shared object file: No such file or directory",
     "library-missing"},
    {"libcuda.so.1: cannot open shared object file: No such file or directory", "libcuda-missing"},
    {"/t/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister", "symbol-missing"},
    {"/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by x)",
     "libstdcxx-too-old"},
    {"/lib/libc.so.6: version `GLIBC_2.34' not found (required by x)", "glibc-too-old"},
    {"/t/libtorch_cpu.so: invalid ELF header", "library-damaged"},
    {"/t/libtorch_cpu.so: file too short", "library-damaged"},
    {"Failed to initialize NVML: Driver/library version mismatch", "driver-parts-mismatch"},
    {"Failed to initialize NVML: Unknown Error", "nvml-fails"},
    {"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
     "driver-not-loaded"},
    {"Found no NVIDIA driver on your system.", "driver-not-loaded"},
    {"bash: nvcc: command not found", "nvcc-missing"},
    {"sh: 1: nvcc: not found", "nvcc-missing"},
    {"ERROR: Could not find a version that satisfies the requirement torch==2.11.0 (from versions: "
     "none)",
     "pip-no-version"},
    {"forward compatibility was attempted on non supported HW", "forward-compatibility"},
    {"CUDA error: no kernel image is available for execution on the device", "gpu-too-old"},
    {"CUDA_ERROR_UNKNOWN", "cuda-unknown-error"},
    {"CUDA unknown error - this may be due to an incorrectly set up environment",
     "cuda-unknown-error"},
    {"all CUDA-capable devices are busy or unavailable", "gpu-busy"},
    {"CUDA error: uncorrectable ECC error encountered", "gpu-ecc-errors"},
    {"Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9}", "cudnn-part-missing"},
    {"CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cudnn-parts-mismatch"},
    {"CUDA driver is a stub library", "stub-libcuda"},
};

class MachineErrors : public ::testing::TestWithParam<Said> {};

TEST_P(MachineErrors, AreRecognized) {
  const auto recognized = recognize_error(GetParam().text);
  ASSERT_TRUE(recognized.has_value()) << GetParam().text;
  EXPECT_STREQ(recognized->row->id, GetParam().explanation) << GetParam().text;
  EXPECT_EQ(recognized->why.text().find('{'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, MachineErrors, ::testing::ValuesIn(kSaid));

TEST(MachineErrors, AnOrdinaryTextIsNone) {
  EXPECT_FALSE(recognize_error("loss 3.2 at step 10").has_value());
}

}  // namespace
}  // namespace trainctl
