// The NVIDIA driver: from device nodes and /proc to what cuInit answers.
#include <array>

#include "doctor/groups.h"
#include "trainctl/base/gpu_evidence.h"

namespace trainctl::doctor {
namespace {

Json gather(const DoctorOptions& options) {
  const GpuEvidence evidence = gather_gpu_evidence(options.root);
  return {{"gpu_nodes", evidence.gpu_nodes}, {"kernel_driver", evidence.kernel_driver}};
}

Finding judge_loaded(const Evidence& evidence, const DoctorOptions&) {
  const std::string version = evidence.at("driver").value("kernel_driver", "");
  return {version.empty() ? Verdict::kUnfit : Verdict::kOk, version, "", "", ""};
}

constexpr std::array kProbes = {Probe{"driver.loaded", "NVIDIA driver", judge_loaded}};

}  // namespace

Group driver_group() { return {"driver", gather, kProbes, true}; }

}  // namespace trainctl::doctor
