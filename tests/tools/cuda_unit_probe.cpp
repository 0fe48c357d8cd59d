// Loads a CUDA unit as the engine does and prints what is in it:
//   cuda_unit_probe [PATH]          the unit's facts as JSON (default: the unit beside this
//   program) cuda_unit_probe --open PATH     what opening its GPU 0 says: "opened cuda:0", or cause
//   and cure
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/cuda_unit_loader.h"
#include "trainctl/cuda/cuda_unit.h"

namespace {

int print_facts(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  const auto facts =
      reinterpret_cast<TrainctlCudaFacts>(dlsym(library, TRAINCTL_CUDA_FACTS_SYMBOL));
  if (facts == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  std::printf("%s\n", facts());
  return 0;
}

int open_device(const std::string& path) {
  trainctl::GpuEvidence evidence = trainctl::gather_gpu_evidence();
  evidence.runtime_cuda = trainctl::linked_cuda_version();
  const trainctl::OpenedGpu gpu = trainctl::open_cuda_device(path, {}, evidence);
  if (!gpu.device) {
    std::printf("%s\n", gpu.why.text().c_str());
    return 3;
  }
  std::printf("opened %s\n", gpu.device->torch_device().str().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--open") == 0) {
    return open_device(argv[2]);
  }
  return print_facts(argc > 1 ? argv[1] : trainctl::cuda_unit_path().string());
}
