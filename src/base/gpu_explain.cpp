// Explanations of what the CUDA runtime says when CUDA does not start.
#include "trainctl/base/gpu_evidence.h"

namespace trainctl {
namespace {

struct StatusRow {
  int status;  // cudaError_t, frozen values of cuda_runtime_api.h
  const char* cause;
  const char* cure;
};

constexpr StatusRow kStatusRows[] = {
    {2, "the GPU's memory is already full",
     "see with nvidia-smi which process holds it, or choose another GPU with CUDA_VISIBLE_DEVICES"},
    {3, "the CUDA driver could not start", "see the kernel's messages (dmesg | grep -i nvrm)"},
    {46, "the GPU is busy with another process or in exclusive mode",
     "end that process (nvidia-smi), or set: sudo nvidia-smi -c DEFAULT"},
    {100, "the CUDA driver sees no GPU",
     "check nvidia-smi, CUDA_VISIBLE_DEVICES and the job's or container's GPU request"},
    {101, "there is no GPU of that number", "choose one that exists, see nvidia-smi -L"},
    {209, "LibTorch has no kernels for this GPU",
     "the pinned LibTorch needs compute capability 7.5 or newer"},
    {719, "the GPU reports a launch failure from an earlier program",
     "reset or reboot it; see dmesg | grep -i xid"},
    {802, "the GPU waits for NVIDIA Fabric Manager, which machines with NVSwitch need",
     "start it in the driver's version: sudo systemctl enable --now nvidia-fabricmanager"},
    {803, "the driver's library and its kernel module are of different versions",
     "reboot after a driver update; do not put an older libcuda into LD_LIBRARY_PATH (a module may "
     "have)"},
    {804, "this GPU does not support CUDA's forward-compatibility libraries",
     "take cuda-compat out of LD_LIBRARY_PATH and install a newer driver instead"},
    {999, "the CUDA driver failed without saying why",
     "reload its memory module: sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm; or reboot"},
};

}  // namespace

Explanation explain_cuda_status(int status, const std::string& name, const std::string& text,
                                const GpuEvidence& evidence) {
  const std::string suffix = " (CUDA error " + std::to_string(status) + ", " + name + ")";
  if (status == 35) {  // cudaErrorInsufficientDriver
    GpuEvidence driver = evidence;
    return {"the NVIDIA driver" + (driver.kernel_driver.empty() ? "" : " " + driver.kernel_driver) +
                " is too old for this LibTorch's CUDA " + cuda_version_text(driver.runtime_cuda) +
                suffix,
            "install NVIDIA driver " + minimum_driver(driver.runtime_cuda) +
                " or newer, or build with a LibTorch 2.11 for an older CUDA (TORCH_ROOT)"};
  }
  for (const StatusRow& row : kStatusRows) {
    if (row.status == status) {
      return {row.cause + suffix, row.cure};
    }
  }
  return {"CUDA does not start: " + text + suffix,
          "check that nvidia-smi works; run: trainctl doctor"};
}

}  // namespace trainctl
