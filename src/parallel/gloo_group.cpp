#define USE_C10D_GLOO
#include "parallel/gloo_group.h"

#include <sys/resource.h>

#include <cstdlib>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"

namespace trainctl {

namespace {

using c10d::ProcessGroupGloo;
using DevicePtr = std::shared_ptr<::gloo::transport::Device>;

std::set<int> threads_of_this_process() {
  std::set<int> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/task", error), end; !error && entry != end;
       entry.increment(error)) {
    found.insert(std::atoi(entry->path().filename().c_str()));
  }
  return found;
}

// Note [Gloo's loop]: each device has a thread that waits for its sockets, level-triggered. What a
// faster rank sends before this one has begun the operation stays in the socket, and the thread
// spins on it, at the cost of the rank that is behind already. Where each rank has one processor,
// that took a third of the speed (docs/performance.md). With a high nice value the thread has what
// the computation leaves.
constexpr int kLoopNiceness = 15;

template <typename Make>
DevicePtr with_modest_loop(const Make& make) {
  const std::set<int> before = threads_of_this_process();
  DevicePtr device = make();
  for (const int thread : threads_of_this_process()) {
    if (!before.contains(thread))
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), kLoopNiceness);
  }
  return device;
}

}  // namespace

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
      options->devices.push_back(
          with_modest_loop([&] { return ProcessGroupGloo::createDeviceForInterface(name); }));
    } catch (const std::exception&) {
      throw environment_error("GLOO_SOCKET_IFNAME names '" + name +
                              "', which is no network interface of this host that is up; "
                              "'ip address' lists them");
    }
  }
  if (options->devices.empty()) {
    options->devices.push_back(
        with_modest_loop([&] { return ProcessGroupGloo::createDeviceForHostname(address); }));
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace trainctl
