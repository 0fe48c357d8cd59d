// Where tensors live. One interface, implemented for CPU here and for CUDA in the CUDA unit;
// everything else in the engine reaches a device through it, so that what runs on CPU is what runs
// on CUDA.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainctl/base/world.h"
#include "trainctl/config/config.h"

namespace trainctl {

struct MemoryStats {       // bytes
  uint64_t allocated = 0;  // CPU: resident set
  uint64_t reserved = 0;   // CPU: 0
  uint64_t peak = 0;
  uint64_t total = 0;
};

struct Abilities {
  bool tf32 = false;       // fp32 products in TF32
  bool fast_bf16 = false;  // bf16 products several times as fast as fp32 ones
};

class Device {
 public:
  virtual ~Device() = default;
  virtual at::Device torch_device() const = 0;
  // Label and value lines for the run header: name, memory, driver, CUDA, cuDNN, NCCL versions….
  virtual std::vector<std::pair<std::string, std::string>> report() const = 0;
  virtual MemoryStats memory() const = 0;
  // Bytes nobody holds now. Nothing where it cannot be told, as after an error from which a GPU
  // does not recover in this process.
  virtual std::optional<uint64_t> free_memory() const = 0;
  virtual Abilities abilities() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void synchronize() = 0;
  // Host memory from which copies to the device run asynchronously; plain memory on CPU.
  virtual at::Tensor pin(at::Tensor host) = 0;
  // Asynchronous where the source is pinned; ordered before later work of the calling thread.
  virtual at::Tensor to_device(const at::Tensor& host) = 0;
  virtual void seed(uint64_t seed) = 0;  // this device's default generator
};

// Sets every global switch of ATen from the config: determinism, cuDNN, TF32 and matmul precision,
// attention back ends, thread counts. Returns header lines that say what is in force. Call it after
// make_device and before the first tensor operation: once threads run, their pools keep their size.
// The processes of one host share its processors: backend.threads 0 takes this one's part.
//
// float32_matmul_precision "high" and "medium" concern fp32 products only. On CUDA both allow TF32.
// On CPU "medium" lets oneDNN compute them in bf16, and "high" in TF32, where the processor can.
std::vector<std::pair<std::string, std::string>> apply_backend(const Config& config,
                                                               const at::Device& device,
                                                               const ProcessWorld& world = {});

// "auto" takes CUDA where a GPU is usable, else CPU with cause and cure in `why_not_cuda` (may be
// null; empty when CUDA was taken or not asked for). "cuda" without one throws environment_error
// with the same two. "cuda" is the GPU of the process's local rank among the visible ones, or the
// only one that is visible. Loads no CUDA library unless a GPU is wanted and there is a sign of
// one; it must come before anything else asks ATen about CUDA, which keeps the answer.
std::unique_ptr<Device> make_device(const std::string& device, std::string* why_not_cuda,
                                    const ProcessWorld& world = {});

// A new c10d::Backend of NCCL from the CUDA unit, which make_device has loaded, as an owning raw
// pointer; `store` is a c10d::Store. Both are untyped, so that this header needs nothing of c10d.
void* make_nccl_backend(void* store, int rank, int size, int64_t timeout_ms);

at::ScalarType scalar_type(Dtype dtype);

// Autocast to `dtype` for the life of the object (fp32: does nothing).
class AutocastGuard {
 public:
  AutocastGuard(Dtype dtype, at::Device device);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool active_ = false, previous_enabled_ = false, previous_cache_ = true;
  at::ScalarType previous_dtype_ = at::kFloat;
  at::DeviceType device_type_;
};

// Mixes its arguments into one 64-bit seed (splitmix64), so that streams are functions of where
// they are used and nothing opaque need be saved.
uint64_t derive_seed(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0);

// Streams, the first argument after the run's seed.
inline constexpr uint64_t kInitStream = 1, kDropoutStream = 2, kShuffleStream = 3,
                          kSampleStream = 4, kSyntheticStream = 5;

}  // namespace trainctl
