// Loads a library of the driver's, and says which file it was.
#pragma once

#include <string>

namespace trainctl::doctor {

struct OpenedLibrary {
  void* handle = nullptr;
  std::string path;   // links resolved
  std::string error;  // dlerror()'s text
};

// `symbol` is one that it surely has. Stays loaded: unloading a driver is not worth the risk.
OpenedLibrary open_library(const char* name, const char* symbol);

}  // namespace trainctl::doctor
