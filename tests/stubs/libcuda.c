/* A libcuda.so.1 whose answers come from environment variables: a machine of the test's choice. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  if (number("STUB_CUDA_HANG", 0)) pause();
  if (number("STUB_CUDA_CRASH", 0)) raise(SIGSEGV);
  return number("STUB_CUDA_INIT", 0);
}
int cuDriverGetVersion(int* version) {
  *version = number("STUB_CUDA_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("STUB_CUDA_COUNT", 2);
  return *count > 0 ? 0 : 100;
}
int cuGetErrorName(int status, const char** name) {
  static char text[32];
  snprintf(text, sizeof text, "CUDA_ERROR_STUB_%d", status);
  *name = text;
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 802 ? "system not yet initialized" : "stub's text";
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  const char* text = getenv("STUB_CUDA_NAME");
  snprintf(name, (size_t)size, "%s", text != NULL ? text : "NVIDIA Stub 80");
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, device + 1, 16);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  const int capability = number("STUB_CUDA_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
  return 0;
}
int cuDeviceCanAccessPeer(int* reaches, int device, int other) {
  (void)device;
  (void)other;
  *reaches = number("STUB_CUDA_PEERS", 1);
  return 0;
}
