#include "trainctl/base/shared_objects.h"

namespace trainctl {
namespace {

struct Provider {
  const char* object_prefix;
  const char* brought_by;
};

constexpr const char* kLibTorch = "LibTorch 2.11.0 (PyPI: torch==2.11.0), in its folder torch/lib";

// First match holds.
constexpr Provider kProviders[] = {
    {"libcudart.so",
     "the CUDA runtime (PyPI: nvidia-cuda-runtime; CUDA Toolkit: cuda-cudart), which the CUDA build "
     "of LibTorch needs even on a CPU"},
    {"libcupti.so",
     "CUPTI (PyPI: nvidia-cuda-cupti; CUDA Toolkit: cuda-cupti), which the CUDA build of LibTorch "
     "needs even on a CPU"},
    {"libcudnn", "cuDNN (PyPI: nvidia-cudnn-cu13)"},
    {"libnccl.so", "NCCL (PyPI: nvidia-nccl-cu13)"},
    {"libcublas", "cuBLAS (PyPI: nvidia-cublas; CUDA Toolkit: libcublas)"},
    {"libcufft.so", "cuFFT (PyPI: nvidia-cufft; CUDA Toolkit: libcufft)"},
    {"libcufile.so", "cuFile (PyPI: nvidia-cufile; CUDA Toolkit: libcufile)"},
    {"libcurand.so", "cuRAND (PyPI: nvidia-curand; CUDA Toolkit: libcurand)"},
    {"libcusolver", "cuSOLVER (PyPI: nvidia-cusolver; CUDA Toolkit: libcusolver)"},
    {"libcusparseLt.so", "cuSPARSELt (PyPI: nvidia-cusparselt-cu13)"},
    {"libcusparse.so", "cuSPARSE (PyPI: nvidia-cusparse; CUDA Toolkit: libcusparse)"},
    {"libnvshmem", "NVSHMEM (PyPI: nvidia-nvshmem-cu13)"},
    {"libnvJitLink.so", "nvJitLink (PyPI: nvidia-nvjitlink; CUDA Toolkit: libnvjitlink)"},
    {"libnvrtc.so", "NVRTC (PyPI: nvidia-cuda-nvrtc; CUDA Toolkit: cuda-nvrtc)"},
    {"libcuda.so", "the NVIDIA driver"},
    {"libtorch", kLibTorch},
    {"libc10", kLibTorch},
    {"libshm", kLibTorch},
    {"libgomp", "GCC's OpenMP runtime (Debian and Ubuntu: libgomp1; RHEL: libgomp)"},
    {"libstdc++", "GCC's C++ runtime (Debian and Ubuntu: libstdc++6; RHEL: libstdc++)"},
    {"libtrainctl_", "trainctl itself"},
};

}  // namespace

std::string provider_of(const std::string& path) {
  const std::string object = path.substr(path.rfind('/') + 1);
  for (const Provider& provider : kProviders) {
    if (object.starts_with(provider.object_prefix)) return provider.brought_by;
  }
  return "";
}

}  // namespace trainctl
