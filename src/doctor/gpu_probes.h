// The evidence about the GPUs, and the probes over it.
#pragma once

#include "doctor/ask_driver.h"

namespace trainctl::doctor {

struct GpusEvidence {
  CudaAnswer cuda;
  NvmlAnswer nvml;
  int present = 0;  // GPUs that /proc or device nodes show
  // CUDA_VISIBLE_DEVICES, read as the driver reads it.
  std::string visible_devices;
  bool visible_devices_set = false;
  int shown = 0;
  std::string ignored;  // why the list ends early
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpusEvidence, cuda, nvml, present, visible_devices,
                                                visible_devices_set, shown, ignored)

std::span<const Probe> gpu_probes();

}  // namespace trainctl::doctor
