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

std::string driver_needed(int runtime_cuda) {
  return "NVIDIA driver " + minimum_driver(runtime_cuda) + " or newer";
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
  if (!evidence.container.empty() && (evidence.gpu_on_pci_bus || evidence.kernel_module)) {
    return {GpuVerdict::kContainerWithoutGpu,
            {"this " + evidence.container +
                 " container was started without access to the host's NVIDIA GPU",
             container_cure(evidence.container)}};
  }
  if (evidence.kernel_module) {
    return {
        GpuVerdict::kDeviceNodesMissing,
        {"the NVIDIA driver " + evidence.kernel_driver +
             " is loaded but there is no device node /dev/nvidia0",
         "create the nodes with: sudo nvidia-modprobe -u -c=0 (in a Slurm job: ask for a GPU, e.g. "
         "--gpus=1)"}};
  }
  if (evidence.gpu_on_pci_bus) {
    return {GpuVerdict::kDriverMissing,
            {"an NVIDIA GPU is in this machine but no NVIDIA driver is loaded",
             "install " + driver_needed(evidence.runtime_cuda) +
                 " and reboot (after a kernel update: rebuild its module)"}};
  }
  GpuDecision none = {GpuVerdict::kNoGpu,
                      {"no NVIDIA GPU found (none on the PCI bus, no NVIDIA driver)",
                       "to use one, run on a machine with an NVIDIA GPU and " +
                           driver_needed(evidence.runtime_cuda)}};
  if (!evidence.container.empty()) {
    none.why.cure += "; in a container " + container_cure(evidence.container);
  }
  return none;
}

GpuDecision decide_driver_library(const GpuEvidence& evidence) {
  if (!evidence.libcuda_error.empty()) {
    const bool absent = evidence.libcuda_error.find("No such file") != std::string::npos;
    std::string cure = "reinstall " + driver_needed(evidence.runtime_cuda) + " with its libraries";
    if (!evidence.container.empty()) {
      cure =
          "let the container see the driver's compute libraries: "
          "NVIDIA_DRIVER_CAPABILITIES=compute,"
          "utility, and " +
          container_cure(evidence.container);
    } else if (evidence.wsl) {
      cure =
          "install the NVIDIA driver in Windows (not in the Linux system) and keep "
          "/usr/lib/wsl/lib in "
          "the loader's path";
    }
    return {GpuVerdict::kDriverLibraryMissing,
            {absent ? "the driver's library libcuda.so.1 was not found"
                    : "the driver's library does not load (" + evidence.libcuda_error + ")",
             cure}};
  }
  if (evidence.driver_cuda > 0 && evidence.driver_cuda / 1000 < evidence.runtime_cuda / 1000) {
    return {GpuVerdict::kDriverTooOld,
            {"the NVIDIA driver" +
                 (evidence.kernel_driver.empty() ? "" : " " + evidence.kernel_driver) +
                 " serves CUDA up to " + cuda_version_text(evidence.driver_cuda) +
                 ", this LibTorch needs CUDA " + cuda_version_text(evidence.runtime_cuda),
             "install " + driver_needed(evidence.runtime_cuda) +
                 ", or build with a LibTorch 2.11 for an older CUDA (TORCH_ROOT)"}};
  }
  return {};
}

}  // namespace

GpuDecision decide_gpu(const GpuEvidence& evidence) {
  if (hides_all(evidence.cuda_visible_devices)) {
    return {GpuVerdict::kHidden,
            {"CUDA_VISIBLE_DEVICES=\"" + *evidence.cuda_visible_devices + "\" hides every GPU",
             "unset it or name one, e.g. CUDA_VISIBLE_DEVICES=0"}};
  }
  // The machine first: advice to rebuild helps nobody without a GPU.
  const bool nodes = evidence.gpu_nodes > 0 || evidence.wsl_node;
  if (!nodes) {
    return decide_without_nodes(evidence);
  }
  if (evidence.runtime_cuda == 0) {
    return {GpuVerdict::kCpuOnlyLibTorch,
            {"an NVIDIA GPU is here, but trainctl was built with LibTorch's CPU-only build",
             "run scripts/setup.sh again on this machine, or set TORCH_ROOT to a CUDA build of "
             "LibTorch "
             "2.11, and rebuild"}};
  }
  if (GpuDecision driver = decide_driver_library(evidence); driver.verdict != GpuVerdict::kUsable) {
    return driver;
  }
  if (!evidence.unit_present) {
    return {GpuVerdict::kUnitMissing,
            {"an NVIDIA GPU is here, but trainctl was built without its CUDA unit "
             "(libtrainctl_cuda.so)",
             "run scripts/setup.sh again on this machine (it brings the CUDA compiler) and rebuild "
             "with "
             "-DTRAINCTL_CUDA=ON"}};
  }
  if (!evidence.wsl_node && (!evidence.control_node || !evidence.uvm_node)) {
    // nvidia-smi works without /dev/nvidia-uvm, CUDA does not.
    return {GpuVerdict::kDeviceNodesMissing,
            {std::string("the device node ") +
                 (evidence.control_node ? "/dev/nvidia-uvm" : "/dev/nvidiactl") + " is missing",
             evidence.container.empty()
                 ? "create it with: sudo nvidia-modprobe -u -c=0"
                 : "pass the GPU with the container's GPU support instead of single devices: " +
                       container_cure(evidence.container)}};
  }
  return {};
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string minimum_driver(int runtime_cuda) {
  // CUDA Toolkit release notes, "CUDA Toolkit and Corresponding Driver Versions": within a major
  // version the driver of its first release is enough.
  switch (runtime_cuda / 1000) {
    case 11:
      return "450.80.02";
    case 12:
      return "525.60.13";
    default:
      return "580";
  }
}

}  // namespace trainctl
