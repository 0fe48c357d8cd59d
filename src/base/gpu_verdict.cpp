#include <cctype>
#include <cstdlib>
#include <string_view>

#include "trainctl/base/gpu_evidence.h"

namespace trainctl {
namespace {

// As the CUDA driver reads it: an empty list, or one that starts with an index that does not exist,
// shows no GPU ("-1", "none", "NoDevFiles" are in common use for that).
bool hides_all(const std::optional<std::string>& visible) {
  if (!visible) {
    return false;
  }
  const size_t begin = visible->find_first_not_of(" \t");
  if (begin == std::string::npos) {
    return true;
  }
  const std::string_view first = std::string_view(*visible).substr(begin);
  const bool index = std::isdigit(static_cast<unsigned char>(first.front())) != 0;
  return !index && first.rfind("GPU-", 0) != 0 && first.rfind("MIG-", 0) != 0;
}

// How a GPU is given to a container of this kind.
std::string container_cure(const std::string& kind) {
  if (kind == "kubernetes") {
    return "request one in the pod (resources.limits: nvidia.com/gpu: 1) on a node with NVIDIA's "
           "device "
           "plugin";
  }
  if (kind == "podman") {
    return "start it with: podman run --device nvidia.com/gpu=all … (NVIDIA Container Toolkit with "
           "CDI)";
  }
  if (kind == "apptainer") {
    return "start it with: apptainer run --nv …";
  }
  return "start it with: docker run --gpus all … (needs the NVIDIA Container Toolkit on the host)";
}

GpuDecision decide_without_nodes(const GpuEvidence& evidence) {
  const std::string needed = minimum_driver(evidence.runtime_cuda);
  if (!evidence.container.empty() && (evidence.gpu_on_pci_bus || evidence.kernel_module)) {
    return {GpuVerdict::kContainerWithoutGpu,
            "container-without-gpu",
            {{"container", evidence.container}, {"how", container_cure(evidence.container)}}};
  }
  if (evidence.kernel_module) {
    return {
        GpuVerdict::kDeviceNodesMissing, "gpu-nodes-missing", {{"driver", evidence.kernel_driver}}};
  }
  if (evidence.gpu_on_pci_bus) {
    return {GpuVerdict::kDriverMissing, "driver-not-loaded", {{"needed", needed}}};
  }
  GpuDecision none = {GpuVerdict::kNoGpu, "no-gpu", {{"needed", needed}}};
  if (!evidence.container.empty()) {
    none.why.cure += "; in a container " + container_cure(evidence.container);
  }
  return none;
}

std::string cure_of_library(const GpuEvidence& evidence) {
  if (!evidence.container.empty()) {
    return "let the container see the driver's compute libraries: "
           "NVIDIA_DRIVER_CAPABILITIES=compute,utility, and " +
           container_cure(evidence.container);
  }
  if (evidence.wsl) {
    return "install the NVIDIA driver in Windows (not in the Linux system) and keep "
           "/usr/lib/wsl/lib in the loader's path";
  }
  return "reinstall NVIDIA driver " + minimum_driver(evidence.runtime_cuda) +
         " or newer with its libraries";
}

GpuDecision decide_driver_library(const GpuEvidence& evidence) {
  if (!evidence.libcuda_error.empty()) {
    const bool absent = evidence.libcuda_error.find("No such file") != std::string::npos;
    return {GpuVerdict::kDriverLibraryMissing,
            absent ? "libcuda-missing" : "libcuda-broken",
            {{"error", evidence.libcuda_error}, {"how", cure_of_library(evidence)}}};
  }
  if (evidence.driver_cuda > 0 && evidence.driver_cuda / 1000 < evidence.runtime_cuda / 1000) {
    return {GpuVerdict::kDriverTooOld, "driver-too-old", driver_facts(evidence)};
  }
  return {};
}

}  // namespace

GpuDecision::GpuDecision(GpuVerdict what, const char* id, const Facts& facts)
    : verdict(what), explanation(id), why(explain(id, facts)) {}

Facts driver_facts(const GpuEvidence& evidence) {
  return {{"driver", evidence.kernel_driver.empty() ? "(version unknown)" : evidence.kernel_driver},
          {"driver_cuda",
           evidence.driver_cuda > 0 ? cuda_version_text(evidence.driver_cuda) : "an older version"},
          {"runtime_cuda", cuda_version_text(evidence.runtime_cuda)},
          {"needed", minimum_driver(evidence.runtime_cuda)}};
}

GpuDecision decide_gpu(const GpuEvidence& evidence) {
  if (hides_all(evidence.cuda_visible_devices)) {
    return {GpuVerdict::kHidden, "gpus-hidden", {{"value", *evidence.cuda_visible_devices}}};
  }
  // The machine first: advice to rebuild helps nobody without a GPU.
  const bool nodes = evidence.gpu_nodes > 0 || evidence.wsl_node;
  if (!nodes) return decide_without_nodes(evidence);
  if (evidence.runtime_cuda == 0) return {GpuVerdict::kCpuOnlyLibTorch, "cpu-only-libtorch"};
  if (GpuDecision driver = decide_driver_library(evidence); driver.verdict != GpuVerdict::kUsable) {
    return driver;
  }
  if (!evidence.unit_present) return {GpuVerdict::kUnitMissing, "cuda-unit-missing"};
  if (!evidence.wsl_node && (!evidence.control_node || !evidence.uvm_node)) {
    // nvidia-smi works without /dev/nvidia-uvm, CUDA does not.
    return {GpuVerdict::kDeviceNodesMissing,
            "device-node-missing",
            {{"node", evidence.control_node ? "/dev/nvidia-uvm" : "/dev/nvidiactl"},
             {"how", evidence.container.empty()
                         ? "create it with: sudo nvidia-modprobe -u -c=0"
                         : "pass the GPU with the container's GPU support instead of single "
                           "devices: " +
                               container_cure(evidence.container)}}};
  }
  return {};
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

namespace {

// NVIDIA, CUDA Toolkit release notes, table "CUDA Toolkit and Minimum Required Driver Version for
// CUDA Minor Version Compatibility", and CUDA Compatibility, "Minor Version Compatibility", as of
// CUDA 13.0 (August 2025): within a major version the driver of its first release is enough.
struct DriverRow {
  int cuda_major;
  const char* driver;
};
constexpr DriverRow kDrivers[] = {{11, "450.80.02"}, {12, "525.60.13"}, {13, "580"}};

}  // namespace

std::string minimum_driver(int runtime_cuda) {
  for (const DriverRow& row : kDrivers) {
    if (row.cuda_major == runtime_cuda / 1000) return row.driver;
  }
  return "580";
}

int minimum_capability(int runtime_cuda) {
  // The kernels in LibTorch 2.11's own builds (docs/gpu.md).
  if (runtime_cuda < 12080) return 50;
  return runtime_cuda < 13000 ? 70 : 75;
}

}  // namespace trainctl
