#include "cli/doctor_preflight.h"

#include <cstdlib>

#include "cli/engine_host.h"
#include "trainctl/base/world_json.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {

int preflight_command(const DoctorArguments& arguments) {
  const ProcessWorld world = read_process_world(process_environment());
  // LibTorch's own notes about sockets it tries again, as in a run.
  if (world.distributed()) setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  return call_engine({{"command", "preflight"},
                      {"options",
                       {{"device", arguments.options.device},
                        {"output_dir", arguments.options.output_dir.string()},
                        {"deadline", arguments.preflight_deadline},
                        {"json", arguments.json}}},
                      {"world", world}});
}

}  // namespace trainctl
