// Loader messages in plain words.
#include <cstdlib>
#include <string>

#include "cli/engine_host.h"
#include "trainctl/base/shared_objects.h"

namespace trainctl {
namespace {

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

std::string missing_object(const std::string& object) {
  const std::string provider = provider_of(object);
  std::string text = object + " is missing.";
  if (!provider.empty()) text += "\n  It comes with " + provider + ".";
  return text +
         "\n  Install it (scripts/setup.sh does), or name the folder that holds it in "
         "LD_LIBRARY_PATH (" +
         search_path_note() + ").";
}

}  // namespace

std::string explain_load_failure(const std::string& library, const std::string& loader_message) {
  const std::string head = "cannot load " + library + ": ";
  const std::string open_failure = ": cannot open shared object file: ";
  const size_t at = loader_message.find(open_failure);
  if (at != std::string::npos) {
    const std::string object = loader_message.substr(0, at);
    const std::string reason = loader_message.substr(at + open_failure.size());
    if (reason == "No such file or directory") return head + missing_object(object);
    return head + object + " cannot be opened: " + reason + "; check its permissions";
  }
  const std::string version = between(loader_message, "version `", "' not found");
  if (!version.empty()) {
    const bool compiler = version.starts_with("GLIBCXX") || version.starts_with("CXXABI");
    return head + (compiler ? "libstdc++" : "the C library") +
           " of this system is too old: " + version + " is needed.\n  " +
           (compiler
                ? "A newer libstdc++.so.6 can be named in LD_LIBRARY_PATH (conda and newer GCC "
                  "packages bring one)"
                : "Build trainctl on this system, or use a container with a newer one") +
           ".\n  The loader said: " + loader_message;
  }
  if (loader_message.find("undefined symbol: ") != std::string::npos) {
    return head +
           "it does not fit the LibTorch found at run time; 2.11.0 is needed.\n  An older or "
           "newer one may come first in LD_LIBRARY_PATH (" +
           search_path_note() + ").\n  The loader said: " + loader_message;
  }
  if (loader_message.find("invalid ELF header") != std::string::npos ||
      loader_message.find("file too short") != std::string::npos) {
    return head + "a library is damaged; install it anew.\n  The loader said: " + loader_message;
  }
  if (loader_message.find("static TLS block") != std::string::npos) {
    return head +
           "too little room for thread-local storage; set "
           "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384.\n  The loader said: " +
           loader_message;
  }
  if (loader_message.find("failed to map segment") != std::string::npos ||
      loader_message.find("cannot allocate memory") != std::string::npos) {
    return head +
           "no memory or address space for it; LibTorch maps about 1 GB (with CUDA 5 GB). Raise "
           "ulimit -v or the job's memory limit.\n  The loader said: " +
           loader_message;
  }
  return head + loader_message;
}

}  // namespace trainctl
