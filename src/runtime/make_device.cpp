#include <charconv>

#include "runtime/cpu_device.h"
#include "runtime/cuda_unit_loader.h"
#include "trainctl/base/error.h"
#include "trainctl/base/gpu_evidence.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

std::optional<int> whole_number(const char* begin, const char* end) {
  int value = 0;
  const auto parsed = std::from_chars(begin, end, value);
  if (begin == end || parsed.ec != std::errc() || parsed.ptr != end || value < 0) {
    return std::nullopt;
  }
  return value;
}

constexpr size_t kIndexBegin = sizeof("cuda:") - 1;

// The number in "cuda:N".
std::optional<int> named_gpu(const std::string& device) {
  if (device.size() <= kIndexBegin) return std::nullopt;
  return whole_number(device.data() + kIndexBegin, device.data() + device.size());
}

// For "cuda" and "auto" the rank's place on its host, among the GPUs the unit counts.
GpuChoice choose_gpu(const std::string& device, const ProcessWorld& world) {
  if (const auto named = named_gpu(device)) return {*named, /*only_one_counts=*/false};
  return {static_cast<int>(world.local_rank), /*only_one_counts=*/world.distributed()};
}

// NCCL, too, takes one rank per GPU only.
void refuse_one_gpu_for_all(const std::string& device, const ProcessWorld& world) {
  if (world.local_world_size <= 1 || !named_gpu(device)) return;
  throw usage_error("backend.device \"" + device + "\" names one GPU for " +
                    std::to_string(world.local_world_size) +
                    " processes of this host; write \"cuda\", which gives each its own");
}

bool names_cuda(const std::string& device) {
  if (device == "cuda") {
    return true;
  }
  return device.rfind("cuda:", 0) == 0 && named_gpu(device).has_value();
}

// The GPU, or why there is none.
OpenedGpu try_cuda(const std::string& device, const ProcessWorld& world) {
  GpuEvidence evidence = gather_gpu_evidence();
  evidence.runtime_cuda = linked_cuda_version();
  const fs::path unit = cuda_unit_path();
  std::error_code error;
  evidence.unit_present = fs::exists(unit, error);
  const GpuDecision decision = decide_gpu(evidence);
  if (decision.verdict != GpuVerdict::kUsable) {
    return {nullptr, decision.why};
  }
  return open_cuda_device(unit, choose_gpu(device, world), evidence);
}

}  // namespace

std::unique_ptr<Device> make_device(const std::string& device, std::string* why_not_cuda,
                                    const ProcessWorld& world) {
  if (why_not_cuda != nullptr) {
    why_not_cuda->clear();
  }
  if (device == "cpu") {
    return make_cpu_device();
  }
  const bool required = names_cuda(device);
  if (!required && device != "auto") {
    throw usage_error("backend.device: \"" + device +
                      "\" is no device; set one of: auto, cpu, cuda, cuda:N (N counts from 0)");
  }
  refuse_one_gpu_for_all(device, world);
  OpenedGpu gpu = try_cuda(device, world);
  if (gpu.device) {
    return std::move(gpu.device);
  }
  if (required) {
    throw environment_error("backend.device is \"" + device + "\": " + gpu.why.text() +
                            ", or set backend.device to \"cpu\"");
  }
  if (why_not_cuda != nullptr) {
    *why_not_cuda = gpu.why.text();
  }
  return make_cpu_device();
}

}  // namespace trainctl
