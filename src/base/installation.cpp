#include "trainctl/base/installation.h"

#include <cstdlib>

namespace trainctl {

EngineSearch search_engine() {
  EngineSearch search;
  std::error_code error;
  if (const char* named = std::getenv("TRAINCTL_ENGINE"); named != nullptr && *named != '\0') {
    const fs::path path =
        fs::is_directory(named, error) ? fs::path(named) / kEngineLibrary : fs::path(named);
    search.named = true;
    search.tried = {path.string()};
    if (fs::exists(path, error)) search.path = fs::absolute(path, error);
    return search;
  }
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {".", "../lib/trainctl", "../lib"}) {
    fs::path path = (here / folder / kEngineLibrary).lexically_normal();
    if (fs::exists(path, error)) {
      search.path = std::move(path);
      return search;
    }
    search.tried.push_back(path.string());
  }
  return search;
}

}  // namespace trainctl
