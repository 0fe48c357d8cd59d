// Whether this machine's NVIDIA GPUs can be used, and if not, why not and what to do. What can be
// seen without any CUDA library is gathered into GpuEvidence; the verdict is a pure function of it,
// so that every case can be tested on any machine. Used by `run` (device "auto" and "cuda") and by
// doctor.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainctl/base/explanations.h"
#include "trainctl/base/files.h"

namespace trainctl {

struct GpuEvidence {
  // Environment.
  std::optional<std::string> cuda_visible_devices;
  std::string container;  // see container_kind()
  bool wsl = false;
  // The machine.
  bool gpu_on_pci_bus = false;
  bool kernel_module = false;  // /proc/driver/nvidia
  std::string kernel_driver;   // its version, e.g. "580.65.06"
  int gpu_nodes = 0;           // /dev/nvidia0 …
  bool control_node = false;   // /dev/nvidiactl
  bool uvm_node = false;       // /dev/nvidia-uvm
  bool wsl_node = false;       // /dev/dxg
  // The driver's library, asked only where a device node exists.
  bool libcuda_tried = false;
  std::string libcuda_error;  // dlopen's text; empty: it loads
  int driver_cuda = 0;        // the newest CUDA it serves: 13000 for 13.0
  // This installation.
  int runtime_cuda = 0;       // the CUDA that LibTorch is built for; 0: its CPU-only build
  bool unit_present = false;  // libtrainctl_cuda.so
};

// What files below `root` and the environment show; loads nothing.
GpuEvidence look_for_gpu(const fs::path& root = "/");

// Looks at files below `root` and, where these show a GPU, at libcuda.so.1 (which is not
// initialised: that would take a second on some machines). `runtime_cuda` and `unit_present` are
// left to the caller.
GpuEvidence gather_gpu_evidence(const fs::path& root = "/");

enum class GpuVerdict {
  kUsable,  // as far as can be seen before CUDA starts
  kHidden,
  kNoGpu,
  kContainerWithoutGpu,
  kDriverMissing,
  kDeviceNodesMissing,
  kDriverLibraryMissing,
  kDriverTooOld,
  kCpuOnlyLibTorch,
  kUnitMissing,
};

struct GpuDecision {
  GpuVerdict verdict = GpuVerdict::kUsable;
  std::string explanation;  // the row's id; empty when usable, like `why`
  Explanation why;

  GpuDecision() = default;
  GpuDecision(GpuVerdict what, const char* id, const Facts& facts = {});
};

GpuDecision decide_gpu(const GpuEvidence& evidence);

// "13.0" for 13000.
std::string cuda_version_text(int version);

// For the rows about the driver: driver, driver_cuda, runtime_cuda, needed.
Facts driver_facts(const GpuEvidence& evidence);

// The oldest driver that serves programs built for this CUDA (its major version counts).
std::string minimum_driver(int runtime_cuda);

// The oldest compute capability LibTorch has kernels for when built for this CUDA: 75 for 7.5.
int minimum_capability(int runtime_cuda);

// The row for a status of the CUDA driver or runtime (they share these numbers); empty for one that
// has none.
std::string_view cuda_status_explanation(int status);

// For a status of the CUDA runtime (cudaError_t as a number, with its name and text).
Explanation explain_cuda_status(int status, const std::string& name, const std::string& text,
                                const GpuEvidence& evidence);

}  // namespace trainctl
