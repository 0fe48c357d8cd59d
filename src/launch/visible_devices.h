// Which GPUs this launcher's ranks will see: what the machine has, read without any CUDA library,
// through CUDA_VISIBLE_DEVICES as the driver reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

struct PresentGpu {
  std::string pci;   // "0000:3b:00.0"; empty when unknown
  std::string uuid;  // "GPU-…"; empty when unknown
};

// By PCI address, from /proc/driver/nvidia/gpus; without it one nameless entry for each
// /dev/nvidia<N>.
std::vector<PresentGpu> present_gpus(const fs::path& root = "/");

struct VisibleDevice {
  std::string name;  // for a CUDA_VISIBLE_DEVICES of its own: "2", "GPU-…", "MIG-…"
  std::string pci;   // empty when unknown
  bool is_mig() const { return name.starts_with("MIG-"); }
};

struct VisibleDevices {
  std::vector<VisibleDevice> devices;
  size_t present = 0;                   // GPUs of the machine
  std::optional<std::string> variable;  // CUDA_VISIBLE_DEVICES, if set
  std::string ignored;                  // why the list ends early; empty: all of it counts

  // "CUDA_VISIBLE_DEVICES=0,1 shows 2 GPUs", or "this machine has 8 GPUs".
  std::string text() const;
};

VisibleDevices visible_devices(const std::optional<std::string>& variable,
                               const std::vector<PresentGpu>& present);

}  // namespace trainctl
