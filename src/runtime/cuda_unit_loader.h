// Finds and loads libtrainctl_cuda.so, which brings libtorch_cuda with it.
#pragma once

#include <memory>
#include <string>

#include "trainctl/base/files.h"
#include "trainctl/base/gpu_evidence.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

// Beside the library or program that holds this code.
fs::path cuda_unit_path();

// The CUDA that the loaded LibTorch is built for, from the CUDA runtime its CPU part brings along;
// 0 for its CPU-only build.
int linked_cuda_version();

struct OpenedGpu {
  std::unique_ptr<Device> device;  // null: `why` says why
  Explanation why;
};

struct GpuChoice {
  int index = 0;
  // Where one GPU alone is visible, it is the one, whatever the index says: Slurm and others give
  // each process its own.
  bool only_one_counts = false;
};

// Loads the unit at `path` and opens a GPU. Once loaded it stays: CUDA's own threads may run.
OpenedGpu open_cuda_device(const fs::path& path, const GpuChoice& gpu, const GpuEvidence& evidence);

}  // namespace trainctl
