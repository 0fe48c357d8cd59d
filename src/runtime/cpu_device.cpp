#include "runtime/cpu_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <mutex>

#include "trainctl/base/host.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

// "Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build … for …" → "2024.2"; "Intel(R)
// MKL-DNN v3.7.1 (Git Hash …)" → "3.7.1".
std::string version_after(const std::string& text, const std::string& marker) {
  const size_t at = text.find(marker);
  if (at == std::string::npos) {
    return "";
  }
  const size_t begin = at + marker.size();
  const size_t end = text.find_first_not_of("0123456789.", begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

class CpuDevice : public Device {
 public:
  at::Device torch_device() const override { return at::kCPU; }

  std::vector<std::pair<std::string, std::string>> report() const override {
    const CpuBudget budget = cpu_budget();
    std::string libraries = std::string("LibTorch ") + TORCH_VERSION;
    const std::string mkl = version_after(at::get_mkl_version(), "Version ");
    const std::string onednn = version_after(at::get_mkldnn_version(), "MKL-DNN v");
    libraries += mkl.empty() ? "" : ", MKL " + mkl;
    libraries += onednn.empty() ? "" : ", oneDNN " + onednn;
    return {{"device", "cpu"},
            {"processor", cpu_model_name() + ", " + std::to_string(budget.usable) + " of " +
                              std::to_string(budget.affinity) + " processors usable, " +
                              at::get_cpu_capability()},
            {"memory", human_bytes(memory_limit())},
            {"libraries", libraries}};
  }

  MemoryStats memory() const override {
    const ResidentMemory resident = resident_memory();
    return {resident.current, 0, resident.peak, memory_limit()};
  }

  std::optional<uint64_t> free_memory() const override { return available_memory(); }
  Abilities abilities() const override {
    return {.tf32 = false, .fast_bf16 = __builtin_cpu_supports("avx512bf16") != 0};
  }
  void reset_peak_memory() override { reset_resident_peak(); }
  void synchronize() override {}
  at::Tensor pin(at::Tensor host) override { return host; }
  at::Tensor to_device(const at::Tensor& host) override { return host; }

  void seed(uint64_t seed) override {
    // Not at::manual_seed: it asks whether there is CUDA, and the answer is kept.
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace trainctl
