#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "trainctl/runtime/device.h"

namespace trainctl {

// CUDA itself does not start: a cudaError_t for the engine to explain.
class CudaStartError : public std::runtime_error {
 public:
  CudaStartError(int status, const std::string& name, const std::string& text)
      : std::runtime_error(text), status_(status), name_(name) {}
  int status() const { return status_; }
  const std::string& name() const { return name_; }

 private:
  int status_;
  std::string name_;
};

// Throws CudaStartError, or environment_error for a GPU that does not exist or is too old. With
// `only_one_counts` and one GPU visible, that one is opened whatever the index.
std::unique_ptr<Device> make_cuda_device(int index, bool only_one_counts);

}  // namespace trainctl
