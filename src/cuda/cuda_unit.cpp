// The unit's entries. Nothing but C types, one Device and one process group crosses here.
#include "trainctl/cuda/cuda_unit.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "cuda/cuda_device.h"
#include "cuda/nccl_group.h"
#include "cuda/versions.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/version.h"

#define TRAINCTL_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace trainctl {
namespace {

// "created", or what the constructor says where there is no GPU: either shows that NCCL is in.
std::string try_nccl_group() {
  try {
    make_nccl_group(c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(10));
    return "created";
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
}

std::string facts_json() {
  int gpus = 0;
  const cudaError_t status = cudaGetDeviceCount(&gpus);
  (void)cudaGetLastError();
  const nlohmann::json facts = {
      {"build_id", kBuildId},
      {"cuda_hooks", at::CUDAHooksRegistry()->Has("CUDAHooks")},
      {"cuda_device_guard", c10::impl::hasDeviceGuardImpl(at::kCUDA)},
      {"cuda_runtime", cuda_runtime_version()},
      {"cuda_driver", cuda_driver_version()},
      {"cudnn", at::Context::hasCuDNN() ? cudnn_version() : ""},
      {"nccl", nccl_version()},
      {"nccl_group", try_nccl_group()},
      {"gpus", status == cudaSuccess ? gpus : 0},
      {"status", cudaGetErrorName(status)},
  };
  return facts.dump();
}

}  // namespace
}  // namespace trainctl

TRAINCTL_CUDA_EXPORT const char* trainctl_cuda_build_id() { return trainctl::kBuildId; }

TRAINCTL_CUDA_EXPORT const char* trainctl_cuda_facts() {
  static std::string facts;
  try {
    facts = trainctl::facts_json();
  } catch (const std::exception& e) {
    facts = nlohmann::json{{"error", e.what()}}.dump();
  }
  return facts.c_str();
}

TRAINCTL_CUDA_EXPORT int trainctl_cuda_make_nccl_backend(const TrainctlCudaHost* host, void* store,
                                                         int rank, int size, long long timeout_ms,
                                                         void** backend) {
  using trainctl::ExitCode;
  try {
    const auto borrowed =
        c10::intrusive_ptr<c10d::Store>::reclaim_copy(static_cast<c10d::Store*>(store));
    *backend =
        trainctl::make_nccl_group(borrowed, rank, size, std::chrono::milliseconds(timeout_ms))
            .release();
    return 0;
  } catch (const c10::Error& e) {
    host->error(host->user, static_cast<int>(ExitCode::kEnvironment), 0, "",
                e.what_without_backtrace());
  } catch (const std::exception& e) {
    host->error(host->user, static_cast<int>(ExitCode::kEnvironment), 0, "", e.what());
  }
  return 1;
}

TRAINCTL_CUDA_EXPORT int trainctl_cuda_open_device(const TrainctlCudaHost* host, int index,
                                                   int only_one_counts, void** device) {
  using trainctl::ExitCode;
  const auto log = host->log;
  void* user = host->user;
  // The callback outlives this call; what `user` points at need not, so it is not passed on.
  trainctl::set_log_sink([log](trainctl::LogLevel level, const std::string& text) {
    log(nullptr, static_cast<int>(level), text.c_str());
  });
  try {
    *device = trainctl::make_cuda_device(index, only_one_counts != 0).release();
    return 0;
  } catch (const trainctl::CudaStartError& e) {
    host->error(user, static_cast<int>(ExitCode::kEnvironment), e.status(), e.name().c_str(),
                e.what());
  } catch (const trainctl::UserError& e) {
    host->error(user, static_cast<int>(e.code()), 0, "", e.what());
  } catch (const std::exception& e) {
    host->error(user, static_cast<int>(ExitCode::kTrainingFailed), 0, "", e.what());
  }
  return 1;
}
