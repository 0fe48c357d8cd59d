// The NVIDIA driver: what is gathered, from device nodes and /proc to what cuInit answers. The
// probes over it are in driver_probes.cpp.
#include <algorithm>
#include <cctype>
#include <fstream>

#include "doctor/driver_probes.h"
#include "doctor/groups.h"

namespace trainctl::doctor {
namespace {

std::string first_word_of(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

// A bridge of class 0x0680 made by NVIDIA: the switches of HGX and DGX machines.
bool nvswitch_on_pci_bus(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "sys/bus/pci/devices", error), end;
       !error && entry != end; entry.increment(error)) {
    if (first_word_of(entry->path() / "vendor") == "0x10de" &&
        first_word_of(entry->path() / "class").starts_with("0x0680")) {
      return true;
    }
  }
  return false;
}

bool process_runs(const fs::path& root, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string folder = entry->path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(folder[0])) == 0) continue;
    if (first_word_of(entry->path() / "comm") == name) return true;
  }
  return false;
}

Json gather(const DoctorOptions& options) {
  const GpuEvidence seen = look_for_gpu(options.root);
  DriverEvidence out;
  out.visible_devices = seen.cuda_visible_devices.value_or("");
  out.visible_devices_set = seen.cuda_visible_devices.has_value();
  out.container = seen.container;
  out.wsl = seen.wsl;
  out.gpu_on_pci_bus = seen.gpu_on_pci_bus;
  out.kernel_module = seen.kernel_module;
  out.kernel_driver = seen.kernel_driver;
  out.gpu_nodes = seen.gpu_nodes;
  out.control_node = seen.control_node;
  out.uvm_node = seen.uvm_node;
  out.wsl_node = seen.wsl_node;
  out.nvswitch = nvswitch_on_pci_bus(options.root);
  // The kernel keeps 15 letters of a process's name.
  if (out.nvswitch) out.fabric_manager = process_runs(options.root, "nv-fabricmanage");
  const DriverAnswers answers = ask_driver(/*about_devices=*/false, options);
  out.cuda = answers.cuda;
  out.nvml = answers.nvml;
  out.gpu_present = seen.gpu_on_pci_bus || seen.kernel_module || seen.gpu_nodes > 0 ||
                    seen.wsl_node || out.cuda.count > 0 || out.nvml.count > 0;
  return to_evidence(out);
}

}  // namespace

Group driver_group() { return {"driver", gather, driver_probes(), true}; }

}  // namespace trainctl::doctor
