#include "cli/engine_host.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/openmp.h"
#include "trainctl/base/shared_objects.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/engine/engine_api.h"

namespace trainctl {
namespace {

constexpr const char* kLibrary = "libtrainctl_engine.so";

// $TRAINCTL_ENGINE (the library or its folder) alone when it is set; else where a build or an
// installation puts it, seen from the executable.
fs::path find_engine() {
  std::error_code error;
  if (const char* named = std::getenv("TRAINCTL_ENGINE"); named != nullptr && *named != '\0') {
    const fs::path path =
        fs::is_directory(named, error) ? fs::path(named) / kLibrary : fs::path(named);
    if (fs::exists(path, error)) return fs::absolute(path, error);
    throw environment_error("TRAINCTL_ENGINE names '" + path.string() +
                            "', which does not exist; name libtrainctl_engine.so or its folder");
  }
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::string> tried;
  for (const char* folder : {".", "../lib/trainctl", "../lib"}) {
    fs::path path = (here / folder / kLibrary).lexically_normal();
    if (fs::exists(path, error)) return path;
    tried.push_back(path.string());
  }
  throw environment_error("the engine " + std::string(kLibrary) + " was not found (looked for " +
                          join(tried, ", ") +
                          "); build or install it beside trainctl, or name it in TRAINCTL_ENGINE");
}

void* symbol(void* library, const char* name, const fs::path& path) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    throw environment_error(path.string() + " is no engine of trainctl: it has no " + name);
  }
  return address;
}

// The engine stays loaded until the process ends: LibTorch cannot be unloaded.
TrainctlEngineCall load_engine() {
  const fs::path path = find_engine();
  bound_spinning();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw environment_error(explain_load_failure(path.string(), dlerror()).text());
  const auto build_id = reinterpret_cast<TrainctlEngineBuildId>(
      symbol(library, TRAINCTL_ENGINE_BUILD_ID_SYMBOL, path));
  if (std::string(build_id()) != kBuildId) {
    throw environment_error(path.string() + " is of another build (" + build_id() +
                            ") than this trainctl (" + kBuildId + "); install both from one build");
  }
  return reinterpret_cast<TrainctlEngineCall>(symbol(library, TRAINCTL_ENGINE_CALL_SYMBOL, path));
}

TrainctlHost make_host() {
  TrainctlHost host = {};
  host.log = [](void*, int level, const char* text) { log(static_cast<LogLevel>(level), text); };
  host.progress = [](void*, const char* line) { terminal().progress(line); };
  host.print = [](void*, const char* text) { terminal().print(text); };
  host.error = [](void*, int, const char* text) { log_error(text); };
  host.stop_signal = [](void*) { return stop_signal(); };
  host.is_terminal = terminal().is_terminal() ? 1 : 0;
  host.terminal_width = terminal().width();
  return host;
}

}  // namespace

int call_engine(const nlohmann::json& request) {
  const TrainctlEngineCall call = load_engine();
  const TrainctlHost host = make_host();
  return call(request.dump().c_str(), &host);
}

}  // namespace trainctl
