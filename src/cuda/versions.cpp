#include "cuda/versions.h"

#include <ATen/Context.h>
#include <cuda_runtime_api.h>

#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>

namespace trainctl {
namespace {

// cuDNN 9 numbers itself major × 10000 + minor × 100 + patch.
std::string cudnn_text(int64_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

int cuda_runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

int cuda_driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::string cudnn_version() { return cudnn_text(at::Context::versionRuntimeCuDNN()); }

std::string nccl_version() { return c10d::getNcclVersion(); }

std::string version_warnings() {
  const int64_t built = at::Context::versionCuDNN();
  const int64_t loaded = at::Context::versionRuntimeCuDNN();
  if (loaded >= built) {
    return "";
  }
  return "cuDNN " + cudnn_text(loaded) + " is loaded, but LibTorch was built with " +
         cudnn_text(built) +
         ": take the older one out of LD_LIBRARY_PATH, or cuDNN may fail with "
         "CUDNN_STATUS_NOT_INITIALIZED";
}

}  // namespace trainctl
