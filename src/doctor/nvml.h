// What the driver's management library (libnvidia-ml.so.1, which nvidia-smi uses) says about the
// GPUs, asked through hand-declared prototypes. Works while CUDA does not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/group.h"

namespace trainctl::doctor {

struct GpuProcess {
  int pid = 0;
  std::string name;  // from /proc; empty: of another container or user
  uint64_t memory = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpuProcess, pid, name, memory)

// Numbers that are -1 were not told.
struct NvmlDevice {
  std::string name, pci, uuid;
  uint64_t memory_total = 0, memory_free = 0;
  int64_t ecc_uncorrected = -1;  // since the driver was loaded
  bool remap_pending = false, remap_failed = false;
  int64_t throttle_reasons = 0;  // nvmlClocksThrottleReasons
  int persistence = -1;
  int mig = -1;
  int mig_instances = 0;
  int compute_mode = 0;
  int temperature = -1;  // °C
  int nvlinks = 0;       // links that are up
  std::vector<GpuProcess> processes;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NvmlDevice, name, pci, uuid, memory_total,
                                                memory_free, ecc_uncorrected, remap_pending,
                                                remap_failed, throttle_reasons, persistence, mig,
                                                mig_instances, compute_mode, temperature, nvlinks,
                                                processes)

struct NvmlAnswer {
  std::string unanswered, load_error, library;
  int status = 0;  // nvmlReturn_t
  std::string status_text;
  std::string driver;  // "580.65.06"
  int count = 0;
  std::vector<NvmlDevice> devices;  // only when asked for
  bool works() const { return unanswered.empty() && load_error.empty() && status == 0; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NvmlAnswer, unanswered, load_error, library, status,
                                                status_text, driver, count, devices)

NvmlAnswer ask_nvml(bool about_devices, const fs::path& root);

}  // namespace trainctl::doctor
