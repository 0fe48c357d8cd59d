// The GPUs: what is gathered. The probes over it are in gpu_probes.cpp.
#include <cstdlib>

#include "doctor/gpu_probes.h"
#include "doctor/groups.h"
#include "launch/visible_devices.h"

namespace trainctl::doctor {
namespace {

Json gather(const DoctorOptions& options) {
  GpusEvidence out;
  const DriverAnswers answers = ask_driver(/*about_devices=*/true, options);
  out.cuda = answers.cuda;
  out.nvml = answers.nvml;
  std::vector<PresentGpu> present = present_gpus(options.root);
  if (present.empty()) present.resize(static_cast<size_t>(out.nvml.count));  // WSL has no /proc
  std::optional<std::string> variable;
  if (const char* value = std::getenv("CUDA_VISIBLE_DEVICES")) variable = value;
  const VisibleDevices visible = visible_devices(variable, present);
  out.present = static_cast<int>(present.size());
  out.visible_devices = variable.value_or("");
  out.visible_devices_set = variable.has_value();
  out.shown = static_cast<int>(visible.devices.size());
  out.ignored = visible.ignored;
  return to_evidence(out);
}

}  // namespace

Group gpus_group() { return {"gpus", gather, gpu_probes(), true}; }

}  // namespace trainctl::doctor
