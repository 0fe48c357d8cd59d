// What the driver's library says, asked through hand-declared prototypes: no CUDA header, nothing
// linked. Initialises CUDA in the calling process, so only for a child; makes no context and takes
// no GPU memory.
#pragma once

#include <string>
#include <vector>

#include "doctor/group.h"

namespace trainctl::doctor {

struct CudaDevice {
  std::string name, pci, uuid;
  uint64_t memory = 0;     // bytes
  int capability = 0;      // 90 for 9.0
  int compute_mode = 0;    // 0 default, 2 prohibited, 3 exclusive
  std::vector<int> peers;  // devices whose memory it can reach
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CudaDevice, name, pci, uuid, memory, capability,
                                                compute_mode, peers)

struct CudaAnswer {
  std::string unanswered;  // why the question got no answer: "no answer within 1.5 s", a crash
  std::string load_error;  // dlopen's text
  std::string library;     // path of libcuda.so.1, links resolved
  int driver_cuda = 0;     // 13000: serves CUDA up to 13.0
  int status = 0;          // cuInit's, then cuDeviceGetCount's CUresult
  std::string status_name, status_text;
  int count = 0;
  std::vector<CudaDevice> devices;  // only when asked for
  bool works() const {
    return unanswered.empty() && load_error.empty() && status == 0 && count > 0;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CudaAnswer, unanswered, load_error, library,
                                                driver_cuda, status, status_name, status_text,
                                                count, devices)

CudaAnswer ask_cuda(bool about_devices);

}  // namespace trainctl::doctor
