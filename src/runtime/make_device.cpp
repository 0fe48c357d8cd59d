#include <charconv>
#include <cstdlib>
#include <cstring>

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

// The index in "cuda:N"; for "cuda" and "auto" the rank's place on its host.
int gpu_index(const std::string& device) {
  constexpr size_t kPrefix = sizeof("cuda:") - 1;
  if (device.size() > kPrefix) {
    const auto index = whole_number(device.data() + kPrefix, device.data() + device.size());
    if (index) {
      return *index;
    }
  }
  const char* rank = std::getenv("LOCAL_RANK");
  return rank == nullptr ? 0 : whole_number(rank, rank + std::strlen(rank)).value_or(0);
}

bool names_cuda(const std::string& device) {
  if (device == "cuda") {
    return true;
  }
  return device.rfind("cuda:", 0) == 0 &&
         whole_number(device.data() + 5, device.data() + device.size()).has_value();
}

// The GPU, or why there is none.
OpenedGpu try_cuda(const std::string& device) {
  GpuEvidence evidence = gather_gpu_evidence();
  evidence.runtime_cuda = linked_cuda_version();
  const fs::path unit = cuda_unit_path();
  std::error_code error;
  evidence.unit_present = fs::exists(unit, error);
  const GpuDecision decision = decide_gpu(evidence);
  if (decision.verdict != GpuVerdict::kUsable) {
    return {nullptr, decision.why};
  }
  return open_cuda_device(unit, gpu_index(device), evidence);
}

}  // namespace

std::unique_ptr<Device> make_device(const std::string& device, std::string* why_not_cuda) {
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
  OpenedGpu gpu = try_cuda(device);
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
