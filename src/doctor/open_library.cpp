#include "doctor/open_library.h"

#include <dlfcn.h>

#include "trainctl/base/files.h"

namespace trainctl::doctor {

OpenedLibrary open_library(const char* name, const char* symbol) {
  OpenedLibrary out;
  out.handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (out.handle == nullptr) {
    const char* text = dlerror();
    out.error = text != nullptr ? text : "unknown reason";
    return out;
  }
  Dl_info info;
  void* address = dlsym(out.handle, symbol);
  if (address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr) {
    std::error_code error;
    const fs::path path = fs::canonical(info.dli_fname, error);
    out.path = error ? info.dli_fname : path.string();
  }
  return out;
}

}  // namespace trainctl::doctor
