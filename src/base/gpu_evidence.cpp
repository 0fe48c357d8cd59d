#include "trainctl/base/gpu_evidence.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "trainctl/base/host.h"

namespace trainctl {
namespace {

std::string first_word_of(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

// A display or 3D controller (class 0x03xxxx) made by NVIDIA (vendor 0x10de).
bool nvidia_on_pci_bus(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "sys/bus/pci/devices", error), end;
       !error && entry != end; entry.increment(error)) {
    if (first_word_of(entry->path() / "vendor") == "0x10de" &&
        first_word_of(entry->path() / "class").rfind("0x03", 0) == 0) {
      return true;
    }
  }
  return false;
}

int count_gpu_nodes(const fs::path& root) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(root / "dev", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    const bool numbered = name.size() > 6 && name.rfind("nvidia", 0) == 0 &&
                          std::all_of(name.begin() + 6, name.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
    count += numbered ? 1 : 0;
  }
  return count;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun …", or "… Open Kernel Module for
// x86_64  580.65.06  Release …": the first word that looks like a version.
std::string kernel_driver_version(const fs::path& file) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    const bool version = word.find('.') != std::string::npos &&
                         std::all_of(word.begin(), word.end(), [](unsigned char c) {
                           return std::isdigit(c) != 0 || c == '.';
                         });
    if (version) {
      return word;
    }
  }
  return "";
}

void ask_libcuda(GpuEvidence* evidence) {
  evidence->libcuda_tried = true;
  // Stays loaded: CUDA will want it, and unloading drivers is not worth the risk.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = dlerror();
    evidence->libcuda_error = text != nullptr ? text : "unknown reason";
    return;
  }
  using DriverGetVersion = int (*)(int*);
  auto* get_version = reinterpret_cast<DriverGetVersion>(dlsym(library, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&evidence->driver_cuda) != 0) {
    evidence->driver_cuda = 0;
  }
}

}  // namespace

GpuEvidence look_for_gpu(const fs::path& root) {
  GpuEvidence evidence;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    evidence.cuda_visible_devices = visible;
  }
  std::error_code error;
  evidence.container = container_kind(root);
  evidence.gpu_on_pci_bus = nvidia_on_pci_bus(root);
  evidence.kernel_module = fs::exists(root / "proc/driver/nvidia/version", error);
  evidence.kernel_driver = kernel_driver_version(root / "proc/driver/nvidia/version");
  evidence.gpu_nodes = count_gpu_nodes(root);
  evidence.control_node = fs::exists(root / "dev/nvidiactl", error);
  evidence.uvm_node = fs::exists(root / "dev/nvidia-uvm", error);
  evidence.wsl_node = fs::exists(root / "dev/dxg", error);
  evidence.wsl =
      evidence.wsl_node || fs::exists(root / "proc/sys/fs/binfmt_misc/WSLInterop", error);
  return evidence;
}

GpuEvidence gather_gpu_evidence(const fs::path& root) {
  GpuEvidence evidence = look_for_gpu(root);
  if (evidence.gpu_nodes > 0 || evidence.wsl_node) {
    ask_libcuda(&evidence);
  }
  return evidence;
}

}  // namespace trainctl
