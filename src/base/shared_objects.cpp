#include "trainctl/base/shared_objects.h"

#include <cstdlib>
#include <optional>

namespace trainctl {
namespace {

struct Provider {
  const char* object_prefix;
  const char* brought_by;
};

constexpr const char* kLibTorch = "LibTorch 2.11.0 (PyPI: torch==2.11.0), in its folder torch/lib";

// First match holds.
constexpr Provider kProviders[] = {
    {"libcudart.so",
     "the CUDA runtime (PyPI: nvidia-cuda-runtime; CUDA Toolkit: cuda-cudart), which the CUDA "
     "build "
     "of LibTorch needs even on a CPU"},
    {"libcupti.so",
     "CUPTI (PyPI: nvidia-cuda-cupti; CUDA Toolkit: cuda-cupti), which the CUDA build of LibTorch "
     "needs even on a CPU"},
    {"libcudnn", "cuDNN (PyPI: nvidia-cudnn-cu13)"},
    {"libnccl.so", "NCCL (PyPI: nvidia-nccl-cu13)"},
    {"libcublas", "cuBLAS (PyPI: nvidia-cublas; CUDA Toolkit: libcublas)"},
    {"libcufft.so", "cuFFT (PyPI: nvidia-cufft; CUDA Toolkit: libcufft)"},
    {"libcufile.so", "cuFile (PyPI: nvidia-cufile; CUDA Toolkit: libcufile)"},
    {"libcurand.so", "cuRAND (PyPI: nvidia-curand; CUDA Toolkit: libcurand)"},
    {"libcusolver", "cuSOLVER (PyPI: nvidia-cusolver; CUDA Toolkit: libcusolver)"},
    {"libcusparseLt.so", "cuSPARSELt (PyPI: nvidia-cusparselt-cu13)"},
    {"libcusparse.so", "cuSPARSE (PyPI: nvidia-cusparse; CUDA Toolkit: libcusparse)"},
    {"libnvshmem", "NVSHMEM (PyPI: nvidia-nvshmem-cu13)"},
    {"libnvJitLink.so", "nvJitLink (PyPI: nvidia-nvjitlink; CUDA Toolkit: libnvjitlink)"},
    {"libnvrtc.so", "NVRTC (PyPI: nvidia-cuda-nvrtc; CUDA Toolkit: cuda-nvrtc)"},
    {"libcuda.so", "the NVIDIA driver"},
    {"libtorch", kLibTorch},
    {"libc10", kLibTorch},
    {"libshm", kLibTorch},
    {"libgomp", "GCC's OpenMP runtime (Debian and Ubuntu: libgomp1; RHEL: libgomp)"},
    {"libstdc++", "GCC's C++ runtime (Debian and Ubuntu: libstdc++6; RHEL: libstdc++)"},
    {"libtrainctl_", "trainctl itself"},
};

// Signs in the loader's message, and what they mean. First match holds.
struct FailureRow {
  const char* sign;
  const char* cause;
  const char* cure;
};

constexpr FailureRow kFailures[] = {
    {"undefined symbol: ",
     "it does not fit the libraries found at run time (LibTorch 2.11.0 is needed)",
     "take older or other ones out of LD_LIBRARY_PATH (module systems and conda set it), or "
     "rebuild "
     "against this LibTorch"},
    {"invalid ELF header", "a library is damaged", "install it anew"},
    {"file too short", "a library is damaged", "install it anew"},
    {"static TLS block", "there is too little room for thread-local storage",
     "set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"},
    {"failed to map segment",
     "there is no memory or address space for it; LibTorch maps about 1 GB (with CUDA 5 GB)",
     "raise ulimit -v or the job's memory limit"},
    {"cannot allocate memory",
     "there is no memory or address space for it; LibTorch maps about 1 GB (with CUDA 5 GB)",
     "raise ulimit -v or the job's memory limit"},
};

std::string search_path_note() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  return path == nullptr || *path == '\0' ? "LD_LIBRARY_PATH is not set"
                                          : std::string("LD_LIBRARY_PATH is ") + path;
}

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t from = begin + before.size();
  const size_t end = text.find(after, from);
  return end == std::string::npos ? "" : text.substr(from, end - from);
}

// "libx.so: cannot open shared object file: No such file or directory"
std::optional<Explanation> explain_unopened(const std::string& head, const std::string& message) {
  const std::string sign = ": cannot open shared object file: ";
  const size_t at = message.find(sign);
  if (at == std::string::npos) return std::nullopt;
  const std::string object = message.substr(0, at);
  const std::string reason = message.substr(at + sign.size());
  if (reason != "No such file or directory")
    return Explanation{head + object + " cannot be opened: " + reason, "check its permissions"};
  const std::string provider = provider_of(object);
  return Explanation{head + object + " was not found",
                     (provider.empty() ? "" : "it comes with " + provider + ": ") +
                         "install it (scripts/setup.sh does), or name the folder that holds it in "
                         "LD_LIBRARY_PATH (" +
                         search_path_note() + ")"};
}

// "libc.so.6: version `GLIBC_2.38' not found (required by …)"
std::optional<Explanation> explain_version(const std::string& head, const std::string& message) {
  const std::string version = between(message, "version `", "' not found");
  if (version.empty()) return std::nullopt;
  const std::string object = message.substr(0, message.find(':'));
  if (version.starts_with("GLIBCXX") || version.starts_with("CXXABI")) {
    return Explanation{head + "libstdc++ (" + object + ") is too old: " + version + " is needed",
                       "take older ones out of LD_LIBRARY_PATH (" + search_path_note() +
                           "), or name a newer libstdc++.so.6 in it (conda and newer GCC packages "
                           "bring one)"};
  }
  if (version.starts_with("GLIBC_")) {
    return Explanation{head + "the C library of this system is too old: " + version + " is needed",
                       "build trainctl on this system, or use a container with a newer one"};
  }
  return Explanation{head + object + " is of another version: " + version + " is needed",
                     "take other ones out of LD_LIBRARY_PATH (" + search_path_note() + ")"};
}

}  // namespace

std::string provider_of(const std::string& path) {
  const std::string object = path.substr(path.rfind('/') + 1);
  for (const Provider& provider : kProviders) {
    if (object.starts_with(provider.object_prefix)) return provider.brought_by;
  }
  return "";
}

Explanation explain_load_failure(const std::string& library, const std::string& loader_message) {
  const std::string head = "cannot load " + library + ": ";
  if (const auto unopened = explain_unopened(head, loader_message)) return *unopened;
  const std::string said = "\n  The loader said: " + loader_message;
  if (auto version = explain_version(head, loader_message)) {
    version->cure += said;
    return *version;
  }
  for (const FailureRow& row : kFailures) {
    if (loader_message.find(row.sign) != std::string::npos)
      return {head + row.cause, row.cure + said};
  }
  return {head + loader_message, "run scripts/setup.sh and build again"};
}

}  // namespace trainctl
