#include "doctor/gpu_probes.h"

#include <algorithm>
#include <array>

#include "trainctl/base/gpu_evidence.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

GpusEvidence gpus_of(const Evidence& evidence) {
  return evidence_of<GpusEvidence>(evidence, "gpus");
}

Finding unless_cpu(Finding finding, const DoctorOptions& options) {
  if (options.device == "cpu") finding.verdict = std::min(finding.verdict, Verdict::kNote);
  return finding;
}

// "GPU 3": as nvidia-smi counts, which lists all and not only the visible ones.
std::string gpu_name(size_t index) { return "GPU " + std::to_string(index); }

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string percent(uint64_t part, uint64_t whole) {
  return std::to_string(whole == 0 ? 0 : part * 100 / whole) + " %";
}

// One finding for the first GPU that `judge` finds something wrong with; the line counts the rest.
template <class Judge>
Finding first_wrong(const std::vector<NvmlDevice>& devices, Judge judge, const std::string& ok) {
  Finding first{Verdict::kOk, ok, "", "", ""};
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Finding finding = judge(gpu_name(i), devices[i]);
    if (finding.verdict == Verdict::kOk) continue;
    if (names.empty() || finding.verdict > first.verdict) first = finding;
    names.push_back(gpu_name(i));
  }
  if (names.size() > 1) first.found += " (of " + join(names, ", ") + ")";
  return first;
}

Finding judge_devices(const Evidence& evidence, const DoctorOptions&) {
  const GpusEvidence gpus = gpus_of(evidence);
  std::vector<std::pair<std::string, int>> kinds;
  for (const CudaDevice& device : gpus.cuda.devices) {
    const std::string kind = device.name + ", " + human_bytes(device.memory) +
                             ", compute capability " + capability_text(device.capability);
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto& entry) { return entry.first == kind; });
    if (known == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<std::string> told;
  for (const auto& [kind, count] : kinds) told.push_back(std::to_string(count) + " × " + kind);
  return {kinds.size() > 1 ? Verdict::kNote : Verdict::kOk, join(told, "; "), "", "", ""};
}

Finding judge_capability(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  const int cuda =
      evidence.contains("libraries") ? evidence.at("libraries").value("runtime_cuda", 0) : 0;
  if (cuda == 0 || gpus.cuda.devices.empty()) return {};
  const int least = minimum_capability(cuda);
  std::vector<std::string> old;
  for (size_t i = 0; i < gpus.cuda.devices.size(); ++i) {
    const CudaDevice& device = gpus.cuda.devices[i];
    if (device.capability >= least) continue;
    old.push_back(gpu_name(i) + " (" + device.name + ", compute capability " +
                  capability_text(device.capability) + ")");
  }
  if (old.empty()) {
    return {Verdict::kOk,
            "at least " + capability_text(least) + ", as LibTorch for CUDA " +
                cuda_version_text(cuda) + " needs",
            "", "", ""};
  }
  const bool all = old.size() == gpus.cuda.devices.size();
  return unless_cpu(
      wrong(all ? Verdict::kUnfit : Verdict::kWarning,
            std::to_string(old.size()) + " too old for LibTorch's CUDA " + cuda_version_text(cuda),
            "gpu-too-old", {{"gpu", join(old, ", ")}}),
      options);
}

Finding judge_visible(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  if (!gpus.visible_devices_set || gpus.present == 0) return {};
  const std::string found = "\"" + gpus.visible_devices + "\": " + std::to_string(gpus.shown) +
                            " of " + std::to_string(gpus.present);
  // One that hides all is the driver's finding.
  if (gpus.ignored.empty()) return {Verdict::kOk, found, "", "", ""};
  return unless_cpu(
      wrong(gpus.shown == 0 ? Verdict::kUnfit : Verdict::kWarning, found, "visible-devices-wrong",
            {{"value", gpus.visible_devices},
             {"problem", gpus.ignored},
             {"shown", std::to_string(gpus.shown)},
             {"present", std::to_string(gpus.present)}}),
      options);
}

Finding judge_memory(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  const auto& devices = gpus.nvml.devices;
  if (devices.empty()) return {};
  uint64_t least = ~0ULL;
  std::string least_text;
  for (const NvmlDevice& device : devices) {
    if (device.memory_total == 0 || device.memory_free >= least) continue;
    least = device.memory_free;
    least_text = human_bytes(least) + " (" + percent(least, device.memory_total) + ") free";
  }
  if (least_text.empty()) return {};
  if (devices.size() > 1) least_text = "at least " + least_text + " on each";
  return unless_cpu(
      first_wrong(
          devices,
          [](const std::string& name, const NvmlDevice& device) -> Finding {
            // The driver keeps a few hundred MiB for itself.
            if (device.memory_total == 0 || device.memory_free * 10 >= device.memory_total * 9) {
              return {};
            }
            std::vector<std::string> holders;
            for (const GpuProcess& process : device.processes) {
              holders.push_back(
                  (process.name.empty() ? "a process of another container or user" : process.name) +
                  " (PID " + std::to_string(process.pid) +
                  (process.memory > 0 ? ", " + human_bytes(process.memory) : "") + ")");
            }
            return wrong(Verdict::kWarning,
                         human_bytes(device.memory_free) + " of " +
                             human_bytes(device.memory_total) + " free",
                         "gpu-memory-held",
                         {{"gpu", name},
                          {"total", human_bytes(device.memory_total)},
                          {"free", human_bytes(device.memory_free)},
                          {"holders",
                           holders.empty() ? "what is not seen from here" : join(holders, ", ")}});
          },
          least_text),
      options);
}

Finding judge_mode(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  constexpr int kProhibited = 2;
  return unless_cpu(
      first_wrong(
          gpus.nvml.devices,
          [](const std::string& name, const NvmlDevice& device) -> Finding {
            if (device.compute_mode == kProhibited) {
              return wrong(Verdict::kUnfit, "prohibited", "gpu-prohibited", {{"gpu", name}});
            }
            if (device.mig == 1 && device.mig_instances == 0) {
              return wrong(Verdict::kUnfit, "MIG without instances", "mig-without-instances",
                           {{"gpu", name}});
            }
            return {};
          },
          ""),
      options);
}

Finding judge_health(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  return unless_cpu(
      first_wrong(
          gpus.nvml.devices,
          [](const std::string& name, const NvmlDevice& device) -> Finding {
            if (device.ecc_uncorrected > 0) {
              const std::string errors = std::to_string(device.ecc_uncorrected) +
                                         (device.ecc_uncorrected == 1 ? " error" : " errors");
              return wrong(Verdict::kWarning, errors + " not corrected", "gpu-ecc-errors",
                           {{"gpu", name}, {"errors", errors}});
            }
            if (device.remap_failed || device.remap_pending) {
              const std::string state =
                  device.remap_failed ? "their replacement failed" : "they wait to be replaced";
              return wrong(Verdict::kWarning, state, "gpu-rows-remapped",
                           {{"gpu", name}, {"state", state}});
            }
            return {};
          },
          gpus.nvml.devices.empty() ? "" : "no memory errors"),
      options);
}

struct ThrottleReason {
  int64_t bit;  // nvmlClocksThrottleReason…
  const char* words;
};
// Idle, application clocks and the power cap that every busy GPU meets are no news.
constexpr ThrottleReason kThrottleReasons[] = {{0x08, "hardware slowdown"},
                                               {0x20, "too warm (software slowdown)"},
                                               {0x40, "too warm (hardware slowdown)"},
                                               {0x80, "power brake from outside"}};

Finding judge_throttling(const Evidence& evidence, const DoctorOptions& options) {
  const GpusEvidence gpus = gpus_of(evidence);
  return unless_cpu(first_wrong(
                        gpus.nvml.devices,
                        [](const std::string& name, const NvmlDevice& device) -> Finding {
                          std::vector<std::string> reasons;
                          for (const ThrottleReason& reason : kThrottleReasons) {
                            if ((device.throttle_reasons & reason.bit) != 0)
                              reasons.emplace_back(reason.words);
                          }
                          if (reasons.empty()) return {};
                          if (device.temperature >= 0) {
                            reasons.push_back(std::to_string(device.temperature) + " °C");
                          }
                          return wrong(Verdict::kWarning, join(reasons, ", "), "gpu-throttled",
                                       {{"gpu", name}, {"reasons", join(reasons, ", ")}});
                        },
                        gpus.nvml.devices.empty() ? "" : "none"),
                    options);
}

Finding judge_persistence(const Evidence& evidence, const DoctorOptions&) {
  const GpusEvidence gpus = gpus_of(evidence);
  return first_wrong(
      gpus.nvml.devices,
      [](const std::string&, const NvmlDevice& device) -> Finding {
        if (device.persistence != 0) return {};
        return wrong(Verdict::kNote, "off", "persistence-off");
      },
      gpus.nvml.devices.empty() ? "" : "on");
}

Finding judge_links(const Evidence& evidence, const DoctorOptions&) {
  const GpusEvidence gpus = gpus_of(evidence);
  const auto& devices = gpus.cuda.devices;
  if (devices.size() < 2) return {};
  size_t pairs = devices.size() * (devices.size() - 1) / 2, reached = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (const int peer : devices[i].peers) reached += peer > static_cast<int>(i) ? 1 : 0;
  }
  size_t linked = 0;
  for (const NvmlDevice& device : gpus.nvml.devices) linked += device.nvlinks > 0 ? 1 : 0;
  const std::string nvlink =
      linked == 0 ? "no NVLink" : "NVLink on " + std::to_string(linked) + " GPUs";
  if (reached == pairs) return {Verdict::kOk, "all reach each other, " + nvlink, "", "", ""};
  const std::string missing =
      std::to_string(pairs - reached) + " of " + std::to_string(pairs) + " pairs";
  return wrong(Verdict::kNote, missing + " without peer access, " + nvlink, "no-peer-access",
               {{"pairs", missing}});
}

constexpr std::array kProbes = {
    Probe{"gpus.devices", "devices", judge_devices},
    Probe{"gpus.capability", "compute capability", judge_capability},
    Probe{"gpus.visible", "CUDA_VISIBLE_DEVICES", judge_visible},
    Probe{"gpus.memory", "GPU memory", judge_memory},
    Probe{"gpus.mode", "compute mode, MIG", judge_mode},
    Probe{"gpus.health", "ECC", judge_health},
    Probe{"gpus.throttling", "clock held down", judge_throttling},
    Probe{"gpus.persistence", "persistence mode", judge_persistence},
    Probe{"gpus.links", "peer access, NVLink", judge_links},
};

}  // namespace

std::span<const Probe> gpu_probes() { return kProbes; }

}  // namespace trainctl::doctor
