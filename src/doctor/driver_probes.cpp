#include "doctor/driver_probes.h"

#include <array>

namespace trainctl::doctor {
namespace {

constexpr int kNewestCuda = 13000;  // what the pinned LibTorch needs, where nothing says otherwise
constexpr int kFabricManager = 802;
constexpr int kNvmlMismatch = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH

DriverEvidence driver_of(const Evidence& evidence) {
  return evidence_of<DriverEvidence>(evidence, "driver");
}

std::string gpus_text(int count) { return std::to_string(count) + (count == 1 ? " GPU" : " GPUs"); }

// What decide_gpu asks for. The installation has probes of its own: here it counts as whole.
GpuEvidence machine_of(const DriverEvidence& driver, const Evidence& evidence) {
  GpuEvidence out;
  if (driver.visible_devices_set) out.cuda_visible_devices = driver.visible_devices;
  out.container = driver.container;
  out.wsl = driver.wsl;
  out.gpu_on_pci_bus = driver.gpu_on_pci_bus;
  out.kernel_module = driver.kernel_module;
  out.kernel_driver = driver.kernel_driver.empty() ? driver.nvml.driver : driver.kernel_driver;
  out.gpu_nodes = driver.gpu_nodes;
  out.control_node = driver.control_node;
  out.uvm_node = driver.uvm_node;
  out.wsl_node = driver.wsl_node;
  out.libcuda_tried = true;
  out.libcuda_error = driver.cuda.load_error;
  out.driver_cuda = driver.cuda.driver_cuda;
  const int built =
      evidence.contains("libraries") ? evidence.at("libraries").value("runtime_cuda", 0) : 0;
  out.runtime_cuda = built > 0 ? built : kNewestCuda;
  out.unit_present = true;
  return out;
}

// Somebody who asked for the CPU is told, not failed.
Finding unless_cpu(Finding finding, const DoctorOptions& options) {
  if (options.device != "cpu" || finding.verdict == Verdict::kOk) return finding;
  finding.verdict = Verdict::kNote;
  return finding;
}

Finding from_decision(const std::string& found, const GpuDecision& decision) {
  return {Verdict::kUnfit, found, decision.explanation, decision.why.cause, decision.why.cure};
}

std::string status_words(const CudaAnswer& cuda) {
  return "cuInit: error " + std::to_string(cuda.status) +
         (cuda.status_name.empty() ? "" : ", " + cuda.status_name) +
         (cuda.status_text.empty() ? "" : " (" + cuda.status_text + ")");
}

Finding judge_status(const CudaAnswer& cuda, const GpuEvidence& machine) {
  const std::string_view id = cuda_status_explanation(cuda.status);
  const Explanation why =
      explain_cuda_status(cuda.status, cuda.status_name.empty() ? "unknown" : cuda.status_name,
                          cuda.status_text, machine);
  return {Verdict::kUnfit, status_words(cuda), std::string(id.empty() ? "cuda-other-error" : id),
          why.cause, why.cure};
}

Finding judge_loaded_anyway(const Evidence& evidence) {
  const DriverEvidence driver = driver_of(evidence);
  const GpuEvidence machine = machine_of(driver, evidence);
  const CudaAnswer& cuda = driver.cuda;
  const std::string version =
      machine.kernel_driver.empty() ? "of unknown version" : machine.kernel_driver;
  if (cuda.works()) {
    return {Verdict::kOk, version + ", cuInit works, " + gpus_text(cuda.count), "", "", ""};
  }
  const GpuDecision decision = decide_gpu(machine);
  // Only cuInit knows whether CUDA works; why it does not, the machine often tells better.
  switch (decision.verdict) {
    case GpuVerdict::kNoGpu:
      if (!driver.gpu_present) return from_decision("none, and no NVIDIA GPU", decision);
      break;
    case GpuVerdict::kDriverTooOld:  // a probe of its own
    case GpuVerdict::kUsable:
      break;
    case GpuVerdict::kHidden:
      return from_decision("hidden by CUDA_VISIBLE_DEVICES", decision);
    default:
      return from_decision(driver.kernel_module ? version + ", but CUDA does not work" : "none",
                           decision);
  }
  if (!cuda.unanswered.empty()) {
    return wrong(Verdict::kUnfit, "cuInit: " + cuda.unanswered, "driver-slow",
                 {{"error", cuda.unanswered}});
  }
  if (!cuda.load_error.empty()) {
    return wrong(Verdict::kUnfit, "libcuda.so.1 does not load", "libcuda-broken",
                 {{"error", cuda.load_error},
                  {"how", "reinstall NVIDIA driver " + minimum_driver(machine.runtime_cuda) +
                              " or newer with its libraries"}});
  }
  if (cuda.status == 0) {
    CudaAnswer none = cuda;
    none.status = 100;
    none.status_name = "no device";
    return judge_status(none, machine);
  }
  return judge_status(cuda, machine);
}

Finding judge_loaded(const Evidence& evidence, const DoctorOptions& options) {
  return unless_cpu(judge_loaded_anyway(evidence), options);
}

Finding judge_version(const Evidence& evidence, const DoctorOptions& options) {
  const DriverEvidence driver = driver_of(evidence);
  const GpuEvidence machine = machine_of(driver, evidence);
  if (machine.driver_cuda == 0) return {};
  const std::string found = "serves CUDA up to " + cuda_version_text(machine.driver_cuda) +
                            "; LibTorch is built for " + cuda_version_text(machine.runtime_cuda);
  if (machine.driver_cuda / 1000 < machine.runtime_cuda / 1000) {
    return unless_cpu(wrong(Verdict::kUnfit, found, "driver-too-old", driver_facts(machine)),
                      options);
  }
  return {Verdict::kOk, found, "", "", ""};
}

// "580.65.06" of libcuda.so.580.65.06.
std::string version_in_name(const std::string& path) {
  const size_t at = path.rfind(".so.");
  const std::string version = at == std::string::npos ? "" : path.substr(at + 4);
  return version.find('.') == std::string::npos ? "" : version;
}

Finding judge_library(const Evidence& evidence, const DoctorOptions& options) {
  const DriverEvidence driver = driver_of(evidence);
  const std::string& path = driver.cuda.library;
  if (path.empty()) return {};
  if (path.find("/stubs/") != std::string::npos) {
    return unless_cpu(wrong(Verdict::kUnfit, path, "stub-libcuda"), options);
  }
  const std::string version = version_in_name(path);
  // Newer libraries over an older kernel module are what cuda-compat is for.
  const bool compat = path.find("compat") != std::string::npos;
  if (!compat && !version.empty() && !driver.kernel_driver.empty() &&
      version != driver.kernel_driver) {
    return unless_cpu(wrong(Verdict::kUnfit,
                            "libcuda.so.1 is " + version + " (" + path + "), the kernel module " +
                                driver.kernel_driver,
                            "driver-parts-mismatch"),
                      options);
  }
  return {Verdict::kOk, path, "", "", ""};
}

Finding judge_smi(const Evidence& evidence, const DoctorOptions& options) {
  const DriverEvidence driver = driver_of(evidence);
  const NvmlAnswer& nvml = driver.nvml;
  if (!driver.gpu_present) return {};
  if (!nvml.load_error.empty()) {
    return {Verdict::kOk, "not asked: " + nvml.load_error, "", "", ""};
  }
  if (!nvml.unanswered.empty()) {
    return wrong(Verdict::kWarning, nvml.unanswered, "nvml-fails", {{"error", nvml.unanswered}});
  }
  if (nvml.status == kNvmlMismatch) {
    return unless_cpu(wrong(Verdict::kUnfit, nvml.status_text, "driver-parts-mismatch"), options);
  }
  if (nvml.status != 0) {
    const std::string error = nvml.status_text + " (" + std::to_string(nvml.status) + ")";
    // CUDA may work all the same.
    return wrong(driver.cuda.works() ? Verdict::kNote : Verdict::kWarning, error, "nvml-fails",
                 {{"error", error}});
  }
  const std::string found = "sees " + gpus_text(nvml.count) + ", driver " + nvml.driver;
  if (nvml.count == 0 || driver.cuda.works() || !driver.cuda.unanswered.empty()) {
    return {Verdict::kOk, found, "", "", ""};
  }
  // The list of usual reasons helps where CUDA itself gives none.
  const std::string reason = judge_loaded_anyway(evidence).explanation;
  for (const char* vague :
       {"cuda-sees-no-gpu", "cuda-does-not-start", "cuda-unknown-error", "cuda-other-error"}) {
    if (reason != vague) continue;
    return unless_cpu(wrong(Verdict::kUnfit, found + "; CUDA sees none", "smi-but-no-cuda",
                            {{"gpus", gpus_text(nvml.count)}}),
                      options);
  }
  return {Verdict::kNote, found + "; CUDA sees none, for the reason above", "", "", ""};
}

Finding judge_fabric(const Evidence& evidence, const DoctorOptions& options) {
  const DriverEvidence driver = driver_of(evidence);
  if (driver.cuda.status == kFabricManager) {
    return unless_cpu(
        wrong(Verdict::kUnfit,
              driver.fabric_manager ? "runs, but CUDA still waits for it (error 802)"
                                    : "not running, and CUDA waits for it (error 802)",
              "fabric-manager"),
        options);
  }
  if (!driver.nvswitch) return {};
  return {
      Verdict::kOk,
      driver.fabric_manager ? "running" : "not seen from here (NVSwitch is present, CUDA works)",
      "", "", ""};
}

constexpr std::array kProbes = {
    Probe{"driver.loaded", "NVIDIA driver", judge_loaded},
    Probe{"driver.version", "driver for this CUDA", judge_version},
    Probe{"driver.library", "driver's library", judge_library},
    Probe{"driver.smi", "nvidia-smi (NVML)", judge_smi},
    Probe{"driver.fabric_manager", "Fabric Manager", judge_fabric},
};

}  // namespace

std::span<const Probe> driver_probes() { return kProbes; }

}  // namespace trainctl::doctor
