#include "runtime/cuda_unit_loader.h"

#include <dlfcn.h>

#include <stdexcept>

#include "trainctl/base/library_error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/shared_objects.h"
#include "trainctl/base/version.h"
#include "trainctl/cuda/cuda_unit.h"

namespace trainctl {
namespace {

struct UnitFailure {
  int exit_code = 0;
  int status = 0;
  std::string name, text;
};

void log_from_unit(void* /*user*/, int level, const char* text) {
  log(static_cast<LogLevel>(level), text);
}

void error_from_unit(void* user, int exit_code, int status, const char* name, const char* text) {
  *static_cast<UnitFailure*>(user) = {exit_code, status, name, text};
}

// The address of a symbol as a function of type F, or null.
template <typename F>
F unit_function(void* library, const char* symbol) {
  return reinterpret_cast<F>(dlsym(library, symbol));
}

// Null with `why` filled in when the unit does not load or belongs to another build.
void* load_unit(const fs::path& path, Explanation* why) {
  // Global, as LibTorch's own loader does it: libraries that libtorch_cuda loads later look its
  // symbols up there.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* text = dlerror();
    *why = explain_load_failure(TRAINCTL_CUDA_LIBRARY, text != nullptr ? text : "unknown reason");
    return nullptr;
  }
  const auto build_id = unit_function<TrainctlCudaBuildId>(library, TRAINCTL_CUDA_BUILD_ID_SYMBOL);
  const std::string found = build_id != nullptr ? build_id() : "unknown";
  if (found != kBuildId) {
    *why = {
        path.string() + " is of another build (" + found + ") than this engine (" + kBuildId + ")",
        "build or install both together"};
    return nullptr;
  }
  return library;
}

}  // namespace

fs::path cuda_unit_path() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&cuda_unit_path), &info) == 0 ||
      info.dli_fname == nullptr) {
    return TRAINCTL_CUDA_LIBRARY;
  }
  // The main program's name is as it was typed, so it may be relative or come from PATH.
  std::error_code error;
  fs::path here = fs::canonical(info.dli_fname, error);
  if (error) {
    here = fs::read_symlink("/proc/self/exe", error);
  }
  return here.parent_path() / TRAINCTL_CUDA_LIBRARY;
}

int linked_cuda_version() {
  using RuntimeGetVersion = int (*)(int*);
  const auto get_version = unit_function<RuntimeGetVersion>(RTLD_DEFAULT, "cudaRuntimeGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) {
    return 0;
  }
  return version;
}

OpenedGpu open_cuda_device(const fs::path& path, const GpuChoice& gpu,
                           const GpuEvidence& evidence) {
  OpenedGpu opened;
  void* library = load_unit(path, &opened.why);
  if (library == nullptr) {
    return opened;
  }
  const auto open =
      unit_function<TrainctlCudaOpenDevice>(library, TRAINCTL_CUDA_OPEN_DEVICE_SYMBOL);
  if (open == nullptr) {
    throw std::logic_error(path.string() + " lacks " TRAINCTL_CUDA_OPEN_DEVICE_SYMBOL);
  }
  UnitFailure failure;
  const TrainctlCudaHost host = {&failure, log_from_unit, error_from_unit};
  void* device = nullptr;
  if (open(&host, gpu.index, gpu.only_one_counts ? 1 : 0, &device) == 0) {
    opened.device.reset(static_cast<Device*>(device));
    return opened;
  }
  if (failure.status != 0) {
    opened.why = explain_cuda_status(failure.status, failure.name, failure.text, evidence);
  } else if (failure.exit_code == static_cast<int>(ExitCode::kTrainingFailed)) {
    throw std::runtime_error(failure.text);
  } else {
    throw UserError(static_cast<ExitCode>(failure.exit_code), failure.text);
  }
  return opened;
}

void* make_nccl_backend(void* store, int rank, int size, int64_t timeout_ms) {
  Explanation why;
  void* library = load_unit(cuda_unit_path(), &why);
  if (library == nullptr) throw environment_error(why.text());
  const auto make =
      unit_function<TrainctlCudaMakeNcclBackend>(library, TRAINCTL_CUDA_MAKE_NCCL_BACKEND_SYMBOL);
  if (make == nullptr) {
    throw std::logic_error("the CUDA unit lacks " TRAINCTL_CUDA_MAKE_NCCL_BACKEND_SYMBOL);
  }
  UnitFailure failure;
  const TrainctlCudaHost host = {&failure, log_from_unit, error_from_unit};
  void* backend = nullptr;
  if (make(&host, store, rank, size, timeout_ms, &backend) == 0) return backend;
  const auto known = recognize_library_error(failure.text, gather_error_evidence());
  throw UserError(static_cast<ExitCode>(failure.exit_code),
                  "NCCL does not start: " + (known ? known->message() : failure.text));
}

}  // namespace trainctl
