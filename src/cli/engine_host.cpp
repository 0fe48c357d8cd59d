#include "cli/engine_host.h"

#include <dlfcn.h>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/installation.h"
#include "trainctl/base/log.h"
#include "trainctl/base/openmp.h"
#include "trainctl/base/shared_objects.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/engine/engine_api.h"

namespace trainctl {
namespace {

fs::path find_engine() {
  const EngineSearch search = search_engine();
  if (!search.path.empty()) return search.path;
  if (search.named) {
    throw environment_error("TRAINCTL_ENGINE names '" + search.tried[0] +
                            "', which does not exist; name libtrainctl_engine.so or its folder");
  }
  throw environment_error("the engine " + std::string(kEngineLibrary) +
                          " was not found (looked for " + join(search.tried, ", ") +
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

TrainctlHost make_host(const RunBegan* began) {
  TrainctlHost host = {};
  host.user = const_cast<RunBegan*>(began);
  host.began = [](void* user, const char* run_directory) {
    if (const auto& told = *static_cast<const RunBegan*>(user)) told(run_directory);
  };
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

int call_engine(const nlohmann::json& request, const RunBegan& began) {
  const TrainctlEngineCall call = load_engine();
  const TrainctlHost host = make_host(&began);
  return call(request.dump().c_str(), &host);
}

}  // namespace trainctl
