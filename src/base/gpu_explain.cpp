// Explanations of what the CUDA runtime and the loader say when CUDA does not start.
#include <string_view>

#include "trainctl/base/gpu_evidence.h"
#include "trainctl/base/shared_objects.h"

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

Explanation explain_cuda_load_failure(const std::string& library, const std::string& dlerror_text) {
  const std::string_view text = dlerror_text;
  const size_t colon = text.find(": ");
  const std::string object(text.substr(0, colon));
  if (text.find("cannot open shared object file") != std::string_view::npos) {
    const std::string base = object.substr(object.rfind('/') + 1);
    const std::string provider = provider_of(base);
    const std::string brings = provider.empty() ? "install the package that brings " + base
                                                : "it comes with " + provider;
    return {library + " does not load: " + base + " was not found",
            brings +
                "; run scripts/setup.sh to install the whole set, or add its folder to "
                "LD_LIBRARY_PATH"};
  }
  if (text.find("undefined symbol") != std::string_view::npos ||
      (text.find("version `") != std::string_view::npos &&
       text.find("not found") != std::string_view::npos)) {
    return {
        library + " does not load: " + dlerror_text,
        "a library of another version comes first: take older ones out of LD_LIBRARY_PATH (module "
        "systems and conda set it), or rebuild against this LibTorch"};
  }
  return {library + " does not load: " + dlerror_text, "run scripts/setup.sh and rebuild"};
}

}  // namespace trainctl
