// The evidence about the NVIDIA driver, and the probes over it.
#pragma once

#include "doctor/ask_driver.h"
#include "trainctl/base/gpu_evidence.h"

namespace trainctl::doctor {

struct DriverEvidence {
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES
  bool visible_devices_set = false;
  std::string container;
  bool wsl = false, gpu_on_pci_bus = false, kernel_module = false;
  std::string kernel_driver;
  int gpu_nodes = 0;
  bool control_node = false, uvm_node = false, wsl_node = false;
  bool gpu_present = false;     // by any sign
  bool nvswitch = false;        // on the PCI bus
  bool fabric_manager = false;  // its process is there
  CudaAnswer cuda;
  NvmlAnswer nvml;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DriverEvidence, visible_devices,
                                                visible_devices_set, container, wsl, gpu_on_pci_bus,
                                                kernel_module, kernel_driver, gpu_nodes,
                                                control_node, uvm_node, wsl_node, gpu_present,
                                                nvswitch, fabric_manager, cuda, nvml)

std::span<const Probe> driver_probes();

}  // namespace trainctl::doctor
