/* A libnvidia-ml.so.1 whose answers come from environment variables, beside libcuda.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  char old_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;
typedef struct {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
} Process;

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}
/* Only the last GPU has what is wrong, so that a probe must look at all of them. */
static int last(void* device) { return (long)device == number("STUB_NVML_COUNT", 2); }

int nvmlInit_v2(void) { return number("STUB_NVML_INIT", 0); }
const char* nvmlErrorString(int status) {
  return status == 18 ? "Driver/library version mismatch" : "stub's NVML text";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  snprintf(text, size, "580.65.06");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)number("STUB_NVML_COUNT", 2);
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = (void*)(long)(index + 1);
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  (void)device;
  snprintf(text, size, "NVIDIA Stub 80");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  snprintf(text, size, "GPU-0000000%ld", (long)device);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:0%ld:00.0", (long)device);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 80ULL << 30;
  memory->free = last(device) ? (unsigned long long)number("STUB_NVML_FREE_GIB", 79) << 30
                              : 79ULL << 30;
  memory->used = memory->total - memory->free;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  *errors = last(device) && kind == 1 && counter == 0 ? (unsigned long long)number("STUB_NVML_ECC", 0) : 0;
  return 0;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = last(device) ? (unsigned)number("STUB_NVML_REMAP_PENDING", 0) : 0;
  *failed = last(device) ? (unsigned)number("STUB_NVML_REMAP_FAILED", 0) : 0;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = last(device) ? (unsigned long long)number("STUB_NVML_THROTTLE", 1) : 1;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  (void)device;
  (void)sensor;
  *degrees = 91;
  return 0;
}
int nvmlDeviceGetPersistenceMode(void* device, int* mode) {
  *mode = last(device) ? number("STUB_NVML_PERSISTENCE", 1) : 1;
  return 0;
}
int nvmlDeviceGetComputeMode(void* device, int* mode) {
  *mode = last(device) ? number("STUB_NVML_COMPUTE_MODE", 0) : 0;
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = last(device) ? (unsigned)number("STUB_NVML_MIG", 0) : 0;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  *instance = device;
  return (int)index < number("STUB_NVML_MIG_INSTANCES", 0) ? 0 : 6;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  (void)device;
  *active = 1;
  return (int)link < number("STUB_NVML_LINKS", 0) ? 0 : 3;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  const int pid = number("STUB_NVML_PROCESS", 0);
  *count = 0;
  if (!last(device) || pid == 0) return 0;
  *count = 1;
  processes[0].pid = (unsigned)pid;
  processes[0].memory = 40ULL << 30;
  processes[0].gpu_instance = processes[0].compute_instance = ~0U;
  return 0;
}
