// A made-up machine: its /proc, /sys and /dev below a folder, its driver from tests/stubs.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>

#include "support/testing.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl::doctor {

class Machine {
 public:
  using Variables = std::map<std::string, std::string>;

  explicit Machine(Variables variables) : variables_(std::move(variables)) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
    options_.root = root_.path();
    options_.quick = true;  // nothing about the network
    // Only a test that hangs on purpose should meet it.
    options_.deadline = std::chrono::seconds(20);
  }
  ~Machine() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // A GPU machine in good order, as far as files show.
  void add_gpus(int count) const {
    root_.write("proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Thu\n");
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i + 1);
      root_.write("proc/driver/nvidia/gpus/0000:0" + n + ":00.0/information",
                  "GPU UUID:  GPU-0000000" + n + "\n");
      root_.write("dev/nvidia" + std::to_string(i), "");
      root_.write("sys/bus/pci/devices/0000:0" + n + ":00.0/vendor", "0x10de\n");
      root_.write("sys/bus/pci/devices/0000:0" + n + ":00.0/class", "0x030200\n");
    }
    root_.write("dev/nvidiactl", "");
    root_.write("dev/nvidia-uvm", "");
  }
  void write(const std::string& name, const std::string& content) const {
    root_.write(name, content);
  }
  void remove(const std::string& name) const { fs::remove_all(root_.path() / name); }
  DoctorOptions& options() { return options_; }

  Diagnosis diagnosed() const { return diagnose(options_); }

 private:
  FakeRoot root_;
  Variables variables_;
  DoctorOptions options_;
};

// From here on this process and its children find the made-up driver under the real one's names:
// a library that is loaded already serves whoever asks for its SONAME.
inline void load_fake_driver() {
  for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    const std::string path = std::string(TRAINCTL_FAKE_DRIVER "/") + name;
    ASSERT_NE(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
  }
}

inline ProbeResult probe_of(const Diagnosis& diagnosis, const std::string& id) {
  for (const ProbeResult& probe : diagnosis.probes) {
    if (probe.id == id) return probe;
  }
  ADD_FAILURE() << "no probe " << id;
  return {};
}

}  // namespace trainctl::doctor
