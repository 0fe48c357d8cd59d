#include "trainctl/doctor/compare.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "doctor/flatten.h"

namespace trainctl {
namespace {

using doctor::Json;

enum class Effect { kIgnored, kNumbers, kHarmless };

struct EffectRow {
  const char* pattern;  // '*' stands for anything
  Effect effect;
};

// The first that matches holds; what no row names is harmless.
constexpr EffectRow kEffects[] = {
    {"trainctl.*", Effect::kNumbers},
    {"driver.kernel_driver", Effect::kNumbers},
    {"driver.cuda.driver_cuda", Effect::kNumbers},
    {"driver.nvml.driver", Effect::kIgnored},  // the same again
    {"driver.gpu_nodes", Effect::kHarmless},
    {"libraries.libtorch", Effect::kNumbers},
    {"libraries.runtime_cuda", Effect::kNumbers},
    {"libraries.glibc", Effect::kNumbers},  // its libm
    {"libraries.objects.libcu*.version", Effect::kNumbers},
    {"libraries.objects.libnccl*.version", Effect::kNumbers},
    {"libraries.objects.libnvrtc*.version", Effect::kNumbers},
    {"libraries.objects.libtorch*.version", Effect::kNumbers},
    {"libraries.objects.libc10*.version", Effect::kNumbers},
    {"libraries.objects.libgomp*.version", Effect::kNumbers},
    {"libraries.objects.libmkl*.version", Effect::kNumbers},
    {"libraries.objects.*.version", Effect::kHarmless},
    {"libraries.objects.*.path", Effect::kHarmless},
    {"libraries.objects.*", Effect::kIgnored},  // follows from versions and paths
    {"libraries.engine_tried", Effect::kIgnored},
    {"gpus.models", Effect::kNumbers},
    {"gpus.cuda.count", Effect::kHarmless},
    {"gpus.visible_devices", Effect::kHarmless},
    {"gpus.*", Effect::kIgnored},
    {"context.program.*", Effect::kNumbers},
    {"context.system.glibc", Effect::kNumbers},
    {"context.processor.model", Effect::kNumbers},
    {"context.processor.instructions", Effect::kNumbers},
    {"context.usable_processors", Effect::kNumbers},  // the threads a run takes by itself
    // Variables that decide which kernels run, or in which order they add.
    {"context.variables.OMP_NUM_THREADS", Effect::kNumbers},
    {"context.variables.MKL_*", Effect::kNumbers},
    {"context.variables.ATEN_CPU_CAPABILITY", Effect::kNumbers},
    {"context.variables.ONEDNN_*", Effect::kNumbers},
    {"context.variables.DNNL_*", Effect::kNumbers},
    {"context.variables.CUBLAS*", Effect::kNumbers},
    {"context.variables.NVIDIA_TF32_OVERRIDE", Effect::kNumbers},
    {"context.variables.TORCHELASTIC_*", Effect::kIgnored},
    {"context.variables.TORCH_*", Effect::kNumbers},
    {"context.variables.CUDNN_*", Effect::kNumbers},
    {"context.variables.NCCL_ALGO", Effect::kNumbers},
    {"context.variables.NCCL_PROTO", Effect::kNumbers},
    {"context.variables.NCCL_NVLS_ENABLE", Effect::kNumbers},
    {"context.variables.NCCL_M*_NCHANNELS", Effect::kNumbers},
    {"context.variables.SLURM_*", Effect::kIgnored},  // another job each time
    {"context.variables.MASTER_*", Effect::kIgnored},
    {"context.variables.*RANK*", Effect::kIgnored},
    {"context.variables.*WORLD_SIZE*", Effect::kIgnored},
    {"context.place.*", Effect::kIgnored},
    {"*.unanswered", Effect::kIgnored},
    {"network.clock.now", Effect::kIgnored},
    {"*free*", Effect::kIgnored},
    {"*used*", Effect::kIgnored},
    {"*available*", Effect::kIgnored},
    {"*pid*", Effect::kIgnored},
    {"*uptime*", Effect::kIgnored},
    {"*speed*", Effect::kIgnored},
    {"*per_s*", Effect::kIgnored},
    {"*seconds*", Effect::kIgnored},
    {"*_ms", Effect::kIgnored},
    {"*skew*", Effect::kIgnored},
};

bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') {
    return !text.empty() && text[0] == pattern[0] && matches(text.substr(1), pattern.substr(1));
  }
  for (size_t skip = 0; skip <= text.size(); ++skip) {
    if (matches(text.substr(skip), pattern.substr(1))) return true;
  }
  return false;
}

Effect effect_of(const std::string& path) {
  for (const EffectRow& row : kEffects) {
    if (matches(path, row.pattern)) return row.effect;
  }
  return Effect::kHarmless;
}

// What is compared: the evidence, the program, and the GPUs as kinds, since one more of a kind is
// no other GPU.
Json comparable(const Json& snapshot) {
  Json out = snapshot.at("evidence");
  out["trainctl"] = {{"version", snapshot.value("trainctl", "")},
                     {"build", snapshot.value("build", "")}};
  if (!out.contains("gpus") || !out["gpus"].contains("cuda")) return out;
  std::set<std::string> models;
  for (const Json& device : out["gpus"]["cuda"].value("devices", Json::array())) {
    models.insert(device.value("name", "") + " (" + std::to_string(device.value("capability", 0)) +
                  ")");
  }
  out["gpus"]["models"] = models;
  out["gpus"]["cuda"].erase("devices");
  return out;
}

bool failed(const Json& evidence, const std::string& group) {
  return evidence.at(group).is_object() && evidence.at(group).contains("failed");
}

}  // namespace

bool Comparison::same_numbers() const {
  return std::none_of(differences.begin(), differences.end(),
                      [](const Difference& difference) { return difference.numbers; });
}

Snapshot read_snapshot(const fs::path& run_or_file) {
  std::error_code error;
  fs::path file = run_or_file;
  if (fs::is_directory(file, error)) {
    file /= "doctor.json";
    if (!fs::exists(file, error)) {
      throw usage_error("'" + run_or_file.string() +
                        "' holds no doctor.json; name a run's folder, or a file that trainctl "
                        "doctor --json wrote");
    }
  }
  Snapshot snapshot;
  const std::string text = read_regular_file(file, ExitCode::kUsage);
  snapshot.content = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json& content = snapshot.content;
  if (!content.is_object() || !content.contains("evidence") || !content["evidence"].is_object()) {
    throw usage_error("'" + file.string() +
                      "' is no snapshot of a machine; name a run's folder, or a file that trainctl "
                      "doctor --json wrote");
  }
  const auto word = [&](const char* key) {
    return content.contains(key) && content[key].is_string() ? content[key].get<std::string>() : "";
  };
  const std::string host = word("host"), time = word("time");
  snapshot.name = file.string();
  if (!host.empty()) snapshot.name += " (" + host + (time.empty() ? "" : ", " + time) + ")";
  return snapshot;
}

Comparison compare_snapshots(const Snapshot& here, const Snapshot& there) {
  Comparison out;
  out.here = here.name;
  out.there = there.name;
  Json a = comparable(here.content), b = comparable(there.content);
  for (const Json* side : {&a, &b}) {
    for (const auto& [group, evidence] : side->items()) {
      const bool both = a.contains(group) && b.contains(group);
      if (both && (failed(a, group) || failed(b, group)) &&
          std::find(out.unknown.begin(), out.unknown.end(), group) == out.unknown.end()) {
        out.unknown.push_back(group);
      }
    }
  }
  const auto known = [&](const Json& group_of, const std::string& group) {
    return group_of.contains(group) &&
           std::find(out.unknown.begin(), out.unknown.end(), group) == out.unknown.end();
  };
  std::set<std::string> paths;
  std::map<std::string, std::string> lines_a, lines_b;
  for (const auto& [group, evidence] : a.items()) {
    // A run's snapshot leaves out what takes long: only what both looked at can differ.
    if (!known(a, group) || !known(b, group)) continue;
    lines_a.merge(doctor::flatten(evidence, group));
    lines_b.merge(doctor::flatten(b.at(group), group));
  }
  for (const auto& [path, value] : lines_a) paths.insert(path);
  for (const auto& [path, value] : lines_b) paths.insert(path);
  const auto value_in = [](const std::map<std::string, std::string>& lines,
                           const std::string& path) {
    const auto found = lines.find(path);
    return found == lines.end() ? std::string() : found->second;
  };
  for (const std::string& path : paths) {
    const Effect effect = effect_of(path);
    const std::string x = value_in(lines_a, path), y = value_in(lines_b, path);
    if (effect == Effect::kIgnored || x == y) continue;
    out.differences.push_back({path, x, y, effect == Effect::kNumbers});
  }
  std::stable_partition(out.differences.begin(), out.differences.end(),
                        [](const Difference& difference) { return difference.numbers; });
  return out;
}

std::string format_comparison(const Comparison& comparison) {
  std::string text = "here:  " + comparison.here + "\nthere: " + comparison.there + "\n";
  const auto section = [&](bool numbers, const char* title) {
    size_t count = 0;
    for (const Difference& difference : comparison.differences) {
      if (difference.numbers != numbers) continue;
      if (count++ == 0) text += std::string("\n") + title + "\n";
      const auto or_none = [](const std::string& value) {
        return value.empty() ? "(none)" : value;
      };
      text += "  " + difference.what + "\n    here:  " + or_none(difference.here) +
              "\n    there: " + or_none(difference.there) + "\n";
    }
    return count;
  };
  const size_t numbers = section(true, "can change numbers");
  const size_t harmless = section(false, "cannot");
  for (const std::string& group : comparison.unknown) {
    text += "\n" + group + ": not compared, one of the two could not gather it\n";
  }
  const size_t all = numbers + harmless;
  if (all == 0) return text + "\nNo difference that matters.\n";
  return text + "\n" + std::to_string(all) + (all == 1 ? " difference, " : " differences, ") +
         (numbers == 0 ? "none" : std::to_string(numbers)) + " of which can change numbers.\n";
}

Json comparison_to_json(const Comparison& comparison) {
  Json out = {{"here", comparison.here},
              {"there", comparison.there},
              {"same_numbers", comparison.same_numbers()},
              {"not_compared", comparison.unknown},
              {"differences", Json::array()}};
  for (const Difference& difference : comparison.differences) {
    out["differences"].push_back({{"what", difference.what},
                                  {"here", difference.here},
                                  {"there", difference.there},
                                  {"can_change_numbers", difference.numbers}});
  }
  return out;
}

}  // namespace trainctl
