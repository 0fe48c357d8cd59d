#include "cuda/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <limits>
#include <mutex>

#include "cuda/versions.h"
#include "trainctl/base/error.h"
#include "trainctl/base/gpu_evidence.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using HeaderLines = std::vector<std::pair<std::string, std::string>>;

uint64_t bytes(int64_t value) { return static_cast<uint64_t>(value > 0 ? value : 0); }

int visible_gpus() {
  // The runtime itself, since ATen turns a failure into a count of 0 and the reason is lost.
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();  // the error is reported here and must not surface again later
    throw CudaStartError(status, cudaGetErrorName(status), cudaGetErrorString(status));
  }
  return count;
}

void require_gpu(int index, int count) {
  if (index < count) {
    return;
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* rank = std::getenv("LOCAL_RANK");
  std::string message = "there is no GPU " + std::to_string(index) + ": " + std::to_string(count) +
                        (count == 1 ? " GPU is" : " GPUs are") + " visible, numbered from 0";
  message += visible != nullptr ? std::string(" (CUDA_VISIBLE_DEVICES=") + visible + ")" : "";
  message += rank != nullptr ? std::string("; LOCAL_RANK is ") + rank +
                                   ", so start at most one process per visible GPU"
                             : "; set backend.device to one of them";
  throw environment_error(message);
}

// Compute capability × 10 below which LibTorch 2.11 has no kernels, by the CUDA it is built for.
int minimum_capability() {
  const int runtime = cuda_runtime_version();
  return runtime >= 13000 ? 75 : runtime >= 12080 ? 70 : 50;
}

void require_capability(const cudaDeviceProp& properties) {
  const int capability = properties.major * 10 + properties.minor;
  const int minimum = minimum_capability();
  if (capability >= minimum) {
    return;
  }
  const auto text = [](int value) {
    return std::to_string(value / 10) + "." + std::to_string(value % 10);
  };
  throw environment_error(
      std::string(properties.name) + " has compute capability " + text(capability) +
      "; this LibTorch (CUDA " + cuda_version_text(cuda_runtime_version()) + ") needs " +
      text(minimum) +
      " or newer: use another GPU, or build with a LibTorch 2.11 for an older CUDA "
      "(TORCH_ROOT), or set backend.device to \"cpu\"");
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(c10::DeviceIndex index)
      : index_(index),
        copy_stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
        properties_(*at::cuda::getDeviceProperties(index)) {}

  at::Device torch_device() const override { return {at::kCUDA, index_}; }
  HeaderLines report() const override;
  MemoryStats memory() const override;

  std::optional<uint64_t> free_memory() const override;

  // Ampere's tensor cores brought both.
  Abilities abilities() const override {
    return {.tf32 = properties_.major >= 8, .fast_bf16 = properties_.major >= 8};
  }

  void reset_peak_memory() override { c10::cuda::CUDACachingAllocator::resetPeakStats(index_); }

  void synchronize() override {
    const c10::cuda::CUDAGuard guard(index_);
    c10::cuda::device_synchronize();
  }

  at::Tensor pin(at::Tensor host) override {
    const c10::cuda::CUDAGuard guard(index_);
    return host.is_pinned() ? host : host.pin_memory();
  }

  at::Tensor to_device(const at::Tensor& host) override;

  void seed(uint64_t seed) override {
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  }

 private:
  c10::DeviceIndex index_;
  c10::cuda::CUDAStream copy_stream_;
  cudaDeviceProp properties_;
};

HeaderLines CudaDevice::report() const {
  const GpuEvidence evidence = gather_gpu_evidence();
  std::string name = properties_.name;
  name += ", compute capability " + std::to_string(properties_.major) + "." +
          std::to_string(properties_.minor) + ", " +
          std::to_string(properties_.multiProcessorCount) + " multiprocessors";
  const c10::cuda::CUDAGuard guard(index_);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::string driver = evidence.kernel_driver.empty() ? "" : evidence.kernel_driver + ", ";
  return {{"device", torch_device().str()},
          {"GPU", name},
          {"GPU memory", human_bytes(total_bytes) + ", " + human_bytes(free_bytes) + " free"},
          {"driver", driver + "serves CUDA up to " + cuda_version_text(cuda_driver_version())},
          {"libraries", std::string("LibTorch ") + TORCH_VERSION + ", CUDA " +
                            cuda_version_text(cuda_runtime_version()) + ", cuDNN " +
                            cudnn_version() + ", NCCL " + nccl_version()},
          {"processor",
           cpu_model_name() + ", " + std::to_string(cpu_budget().usable) + " processors usable"}};
}

MemoryStats CudaDevice::memory() const {
  using c10::CachingAllocator::StatType;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
  const auto all = static_cast<size_t>(StatType::AGGREGATE);
  return {bytes(stats.allocated_bytes[all].current), bytes(stats.reserved_bytes[all].current),
          bytes(stats.allocated_bytes[all].peak), properties_.totalGlobalMem};
}

// The runtime itself, and of this thread's GPU, which make_cuda_device has set: checks of ATen's, a
// guard's too, would throw in the middle of another error.
std::optional<uint64_t> CudaDevice::free_memory() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) return free_bytes;
  (void)cudaGetLastError();
  return std::nullopt;
}

at::Tensor CudaDevice::to_device(const at::Tensor& host) {
  const c10::cuda::CUDAGuard guard(index_);
  if (!host.is_pinned()) {
    return host.to(torch_device());
  }
  // The copy runs beside the step that is under way. Its memory belongs to the copy stream, so
  // nothing has to wait before it is written; the caller's stream waits for the copy alone, and
  // record_stream keeps the memory until that stream is done with it.
  const c10::cuda::CUDAStream caller = c10::cuda::getCurrentCUDAStream(index_);
  at::Tensor on_device;
  {
    const c10::cuda::CUDAStreamGuard stream(copy_stream_);
    on_device = host.to(torch_device(), /*non_blocking=*/true);
  }
  at::cuda::CUDAEvent copied;
  copied.record(copy_stream_);
  copied.block(caller);
  on_device.record_stream(caller.unwrap());
  return on_device;
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index, bool only_one_counts) {
  const int visible = visible_gpus();
  if (only_one_counts && visible == 1) index = 0;
  require_gpu(index, visible);
  if (index > std::numeric_limits<c10::DeviceIndex>::max()) {
    throw environment_error("LibTorch numbers GPUs up to " +
                            std::to_string(std::numeric_limits<c10::DeviceIndex>::max()));
  }
  cudaDeviceProp properties = {};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  require_capability(properties);
  // The context is made here, so that a GPU in exclusive mode or a full one fails before training.
  const auto gpu = static_cast<c10::DeviceIndex>(index);
  c10::cuda::set_device(gpu);
  at::globalContext().lazyInitDevice(at::kCUDA);
  const cudaError_t status = cudaFree(nullptr);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    throw CudaStartError(status, cudaGetErrorName(status), cudaGetErrorString(status));
  }
  if (const std::string warnings = version_warnings(); !warnings.empty()) {
    log_warning(warnings);
  }
  return std::make_unique<CudaDevice>(gpu);
}

}  // namespace trainctl
