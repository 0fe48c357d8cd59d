#define USE_C10D_GLOO
#include "parallel/gloo_group.h"

#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainctl/base/error.h"

namespace trainctl {

using c10d::ProcessGroupGloo;

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank, int size,
                                                  std::chrono::milliseconds timeout,
                                                  const std::string& interfaces,
                                                  const std::string& address) {
  auto options = ProcessGroupGloo::Options::create(timeout);
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) continue;
    try {
      options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    } catch (const std::exception&) {
      throw environment_error("GLOO_SOCKET_IFNAME names '" + name +
                              "', which is no network interface of this host that is up; "
                              "'ip address' lists them");
    }
  }
  if (options->devices.empty()) {
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace trainctl
