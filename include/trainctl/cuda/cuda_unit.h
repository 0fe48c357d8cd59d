// The C border between the engine and libtrainctl_cuda.so. Requests and plain replies are C types;
// the Device behind `device` and the process group behind `backend` are the C++ objects that cross,
// which is why units of different builds refuse each other before anything else is called.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct TrainctlCudaHost {
  void* user;
  // One record, see LogLevel; called later too, then with a null user.
  void (*log)(void* user, int level, const char* text);
  // What failed: a UserError's exit code and text (a defect: code 1); or, where CUDA itself does
  // not start, its cudaError_t in `status` with its name and text, for the engine to explain.
  void (*error)(void* user, int exit_code, int status, const char* name, const char* text);
};

typedef const char* (*TrainctlCudaBuildId)(void);
// Makes GPU `index`'s Device (a trainctl::Device*, owned by the caller); with `only_one_counts` and
// one GPU visible that one's. 0, or non-zero after `error`.
typedef int (*TrainctlCudaOpenDevice)(const struct TrainctlCudaHost* host, int index,
                                      int only_one_counts, void** device);
// Makes an NCCL process group over `store` (a c10d::Store*, borrowed): a c10d::Backend* that owns
// one reference. 0, or non-zero after `error`.
typedef int (*TrainctlCudaMakeNcclBackend)(const struct TrainctlCudaHost* host, void* store,
                                           int rank, int size, long long timeout_ms,
                                           void** backend);
// What is in the unit and its libraries, as JSON; needs no GPU. Valid until the next call.
typedef const char* (*TrainctlCudaFacts)(void);

#define TRAINCTL_CUDA_BUILD_ID_SYMBOL "trainctl_cuda_build_id"
#define TRAINCTL_CUDA_OPEN_DEVICE_SYMBOL "trainctl_cuda_open_device"
#define TRAINCTL_CUDA_MAKE_NCCL_BACKEND_SYMBOL "trainctl_cuda_make_nccl_backend"
#define TRAINCTL_CUDA_FACTS_SYMBOL "trainctl_cuda_facts"
#define TRAINCTL_CUDA_LIBRARY "libtrainctl_cuda.so"

#ifdef __cplusplus
}
#endif
