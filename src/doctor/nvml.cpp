#include "doctor/nvml.h"

#include <dlfcn.h>

#include <fstream>
#include <map>

#include "doctor/open_library.h"

namespace trainctl::doctor {
namespace {

// nvml.h, whose ABI is frozen per function version.
struct DeviceHandle;
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {  // nvmlPciInfo_t of _v3
  char old_bus_id[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {  // nvmlProcessInfo_v2_t, which the _v3 functions fill in
  unsigned int pid;
  unsigned long long memory;
  unsigned int gpu_instance, compute_instance;
};
constexpr int kFunctionNotFound = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
constexpr int kUncorrected = 1, kVolatile = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr unsigned kMostLinks = 18;
constexpr unsigned long long kNotAvailable = ~0ULL;

class Nvml {
 public:
  explicit Nvml(void* library) : library_(library) {}
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    return function == nullptr ? kFunctionNotFound : function(arguments...);
  }
  std::string error_text(int status) const {
    using Function = const char* (*)(int);
    const auto function = reinterpret_cast<Function>(dlsym(library_, "nvmlErrorString"));
    const char* text = function == nullptr ? nullptr : function(status);
    return text == nullptr ? "" : text;
  }

 private:
  void* library_;
};

std::string process_name(const fs::path& root, unsigned pid) {
  std::ifstream in(root / "proc" / std::to_string(pid) / "comm");
  std::string name;
  std::getline(in, name);
  return name;
}

void read_processes(const Nvml& nvml, DeviceHandle* device, const fs::path& root, NvmlDevice* out) {
  std::map<unsigned, GpuProcess> found;  // one that computes and draws shows in both lists
  for (const char* function :
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"}) {
    ProcessInfo infos[256];
    unsigned count = 256;
    if (nvml.call(function, device, &count, &infos[0]) != 0) continue;
    for (unsigned i = 0; i < count && i < 256; ++i) {
      const unsigned long long memory = infos[i].memory == kNotAvailable ? 0 : infos[i].memory;
      found[infos[i].pid] = {static_cast<int>(infos[i].pid), process_name(root, infos[i].pid),
                             memory};
    }
  }
  for (const auto& [pid, process] : found) out->processes.push_back(process);
}

void read_health(const Nvml& nvml, DeviceHandle* device, NvmlDevice* out) {
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &errors) == 0) {
    out->ecc_uncorrected = static_cast<int64_t>(errors);
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) ==
      0) {
    out->remap_pending = pending != 0;
    out->remap_failed = failed != 0;
  }
  unsigned long long reasons = 0;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == 0) {
    out->throttle_reasons = static_cast<int64_t>(reasons);
  }
  unsigned temperature = 0;
  if (nvml.call("nvmlDeviceGetTemperature", device, kTemperatureOfGpu, &temperature) == 0) {
    out->temperature = static_cast<int>(temperature);
  }
}

void read_modes(const Nvml& nvml, DeviceHandle* device, NvmlDevice* out) {
  int mode = 0;
  if (nvml.call("nvmlDeviceGetPersistenceMode", device, &mode) == 0) out->persistence = mode;
  if (nvml.call("nvmlDeviceGetComputeMode", device, &mode) == 0) out->compute_mode = mode;
  unsigned current = 0, pending = 0;
  if (nvml.call("nvmlDeviceGetMigMode", device, &current, &pending) == 0) {
    out->mig = static_cast<int>(current);
  }
  for (unsigned i = 0; out->mig == 1 && i < 8; ++i) {
    DeviceHandle* instance = nullptr;
    if (nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &instance) == 0) {
      ++out->mig_instances;
    }
  }
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &active) != 0) break;
    out->nvlinks += active != 0 ? 1 : 0;
  }
}

NvmlDevice describe(const Nvml& nvml, DeviceHandle* device, const fs::path& root) {
  NvmlDevice out;
  char text[128] = {};
  if (nvml.call("nvmlDeviceGetName", device, &text[0], 96U) == 0) out.name = text;
  if (nvml.call("nvmlDeviceGetUUID", device, &text[0], 96U) == 0) out.uuid = text;
  PciInfo pci = {};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == 0) out.pci = pci.bus_id;
  Memory memory = {};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == 0) {
    out.memory_total = memory.total;
    out.memory_free = memory.free;
  }
  read_health(nvml, device, &out);
  read_modes(nvml, device, &out);
  read_processes(nvml, device, root, &out);
  return out;
}

}  // namespace

NvmlAnswer ask_nvml(bool about_devices, const fs::path& root) {
  NvmlAnswer answer;
  const OpenedLibrary opened = open_library("libnvidia-ml.so.1", "nvmlInit_v2");
  answer.load_error = opened.error;
  answer.library = opened.path;
  if (opened.handle == nullptr) return answer;
  const Nvml nvml(opened.handle);
  answer.status = nvml.call("nvmlInit_v2");
  unsigned count = 0;
  if (answer.status == 0) answer.status = nvml.call("nvmlDeviceGetCount_v2", &count);
  if (answer.status != 0) {
    answer.status_text = nvml.error_text(answer.status);
    return answer;
  }
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", &version[0], 80U) == 0) answer.driver = version;
  answer.count = static_cast<int>(count);
  for (unsigned i = 0; about_devices && i < count; ++i) {
    DeviceHandle* device = nullptr;
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) != 0) continue;
    answer.devices.push_back(describe(nvml, device, root));
  }
  return answer;
}

}  // namespace trainctl::doctor
