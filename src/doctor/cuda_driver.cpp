#include "doctor/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>

#include "doctor/open_library.h"

namespace trainctl::doctor {
namespace {

// cuda.h, whose ABI is frozen: CUdevice and CUresult are ints, CUuuid 16 bytes.
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;
constexpr int kComputeMode = 20;
constexpr int kSymbolNotFound = 500;  // CUDA_ERROR_NOT_FOUND

class Driver {
 public:
  explicit Driver(void* library) : library_(library) {}

  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    return function == nullptr ? kSymbolNotFound : function(arguments...);
  }

  std::string text_of(const char* function, int status) const {
    const char* text = nullptr;
    return call(function, status, &text) == 0 && text != nullptr ? text : "";
  }

 private:
  void* library_;
};

std::string uuid_text(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    char pair[4];
    std::snprintf(pair, sizeof pair, "%02x", bytes[i]);
    text += pair;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += "-";
  }
  return text;
}

CudaDevice describe(const Driver& driver, int device, int count) {
  CudaDevice out;
  char name[128] = {}, pci[32] = {};
  if (driver.call("cuDeviceGetName", &name[0], static_cast<int>(sizeof name) - 1, device) == 0) {
    out.name = name;
  }
  if (driver.call("cuDeviceGetPCIBusId", &pci[0], static_cast<int>(sizeof pci) - 1, device) == 0) {
    out.pci = pci;
  }
  std::array<unsigned char, 16> uuid = {};
  if (driver.call("cuDeviceGetUuid_v2", uuid.data(), device) == 0 ||
      driver.call("cuDeviceGetUuid", uuid.data(), device) == 0) {
    out.uuid = uuid_text(uuid);
  }
  size_t memory = 0;
  if (driver.call("cuDeviceTotalMem_v2", &memory, device) == 0) out.memory = memory;
  int major = 0, minor = 0;
  driver.call("cuDeviceGetAttribute", &major, kCapabilityMajor, device);
  driver.call("cuDeviceGetAttribute", &minor, kCapabilityMinor, device);
  out.capability = major * 10 + minor;
  driver.call("cuDeviceGetAttribute", &out.compute_mode, kComputeMode, device);
  for (int other = 0; other < count; ++other) {
    int reaches = 0;
    if (other != device && driver.call("cuDeviceCanAccessPeer", &reaches, device, other) == 0 &&
        reaches != 0) {
      out.peers.push_back(other);
    }
  }
  return out;
}

}  // namespace

CudaAnswer ask_cuda(bool about_devices) {
  CudaAnswer answer;
  const OpenedLibrary opened = open_library("libcuda.so.1", "cuInit");
  answer.load_error = opened.error;
  answer.library = opened.path;
  if (opened.handle == nullptr) return answer;
  const Driver driver(opened.handle);
  if (driver.call("cuDriverGetVersion", &answer.driver_cuda) != 0) answer.driver_cuda = 0;
  answer.status = driver.call("cuInit", 0U);
  if (answer.status == 0) answer.status = driver.call("cuDeviceGetCount", &answer.count);
  if (answer.status != 0) {
    answer.status_name = driver.text_of("cuGetErrorName", answer.status);
    answer.status_text = driver.text_of("cuGetErrorString", answer.status);
    return answer;
  }
  for (int device = 0; about_devices && device < answer.count; ++device) {
    answer.devices.push_back(describe(driver, device, answer.count));
  }
  return answer;
}

}  // namespace trainctl::doctor
