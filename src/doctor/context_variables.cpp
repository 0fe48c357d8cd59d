#include "doctor/context_variables.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "doctor/small_files.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

bool is_on(const std::string& value) {
  return value == "1" || value == "true" || value == "TRUE" || value == "ON" || value == "YES" ||
         value == "yes" || value == "on";
}
bool is_off(const std::string& value) { return value == "0"; }
bool is_loud(const std::string& value) { return value == "INFO" || value == "TRACE"; }
bool is_detail(const std::string& value) { return value == "DETAIL"; }
bool is_any(const std::string& value) { return !value.empty() && value != "0"; }
bool is_low_level(const std::string& value) {
  return value == "default" || value == "ALL" || value == "SSE41" || value == "AVX" ||
         value == "AVX2" || value == "avx2";
}

struct Slow {
  const char* name;
  bool (*slow)(const std::string& value);
  const char* effect;
};

constexpr Slow kSlow[] = {
    {"CUDA_LAUNCH_BLOCKING", is_on, "every CUDA kernel is waited for, several times slower"},
    {"NCCL_DEBUG", is_loud, "NCCL prints much from every rank"},
    {"NCCL_P2P_DISABLE", is_on, "GPUs of one host exchange through host memory"},
    {"NCCL_SHM_DISABLE", is_on, "ranks of one host exchange through the network"},
    {"TORCH_DISTRIBUTED_DEBUG", is_detail, "every collective is checked by another one first"},
    {"TORCH_NCCL_BLOCKING_WAIT", is_on, "the host waits for every collective"},
    {"NCCL_BLOCKING_WAIT", is_on, "the host waits for every collective"},
    {"TORCH_CPP_LOG_LEVEL", is_loud, "LibTorch prints much from every rank"},
    {"TORCH_SHOW_DISPATCH_TRACE", is_any, "LibTorch prints every operation"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", is_any, "every tensor waits for cudaMalloc"},
    {"NVIDIA_TF32_OVERRIDE", is_off, "TF32 is off everywhere, whatever the config says"},
    {"MKL_VERBOSE", is_any, "MKL prints every call"},
    {"DNNL_VERBOSE", is_any, "oneDNN prints every call"},
    {"ONEDNN_VERBOSE", is_any, "oneDNN prints every call"},
    {"ATEN_CPU_CAPABILITY", is_low_level, "LibTorch leaves newer instructions unused"},
    {"ONEDNN_MAX_CPU_ISA", is_low_level, "oneDNN leaves newer instructions unused"},
    {"DNNL_MAX_CPU_ISA", is_low_level, "oneDNN leaves newer instructions unused"},
    {"MALLOC_CHECK_", is_any, "every allocation is checked"},
    {"MALLOC_PERTURB_", is_any, "every allocation is filled"},
    {"CUDA_DISABLE_PTX_JIT", is_on, "GPUs newer than the build find no code"},
};

// Of c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h, which refuse all others.
const std::vector<std::string>& allocator_keys() {
  static const std::vector<std::string> kKeys = {"backend",
                                                 "expandable_segments",
                                                 "garbage_collection_threshold",
                                                 "graph_capture_record_stream_reuse",
                                                 "large_segment_size_mb",
                                                 "max_non_split_rounding_mb",
                                                 "max_split_size_mb",
                                                 "per_process_memory_fraction",
                                                 "pinned_num_register_threads",
                                                 "pinned_reserve_segment_size_mb",
                                                 "pinned_use_background_threads",
                                                 "pinned_use_cuda_host_register",
                                                 "release_lock_on_cudamalloc",
                                                 "roundup_power2_divisions"};
  return kKeys;
}

// "a:1,b:[x:1,y:2],c:true": commas inside brackets divide nothing.
std::vector<std::string> divided(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// OpenMP takes "8" and "8,2" for nested regions.
bool is_thread_list(const std::string& value) {
  std::istringstream in(value);
  bool any = false;
  for (std::string part; std::getline(in, part, ',');) {
    const std::string digits = trimmed(part);
    if (digits.empty() || digits.size() > 6 || digits == "0" ||
        !std::all_of(digits.begin(), digits.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; }))
      return false;
    any = true;
  }
  return any;
}

}  // namespace

std::string value_of(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::vector<OddVariable> slow_variables(const Variables& variables) {
  std::vector<OddVariable> found;
  for (const Slow& row : kSlow) {
    const std::string value = value_of(variables, row.name);
    if (!value.empty() && row.slow(value)) found.push_back({row.name, value, row.effect, ""});
  }
  return found;
}

std::optional<OddVariable> wrong_allocator_setting(const Variables& variables) {
  // The first of these that is set counts.
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const std::string value = value_of(variables, name);
    if (value.empty()) continue;
    for (const std::string& part : divided(value)) {
      const std::string key = trimmed(part.substr(0, part.find(':')));
      if (part.find(':') == std::string::npos)
        return OddVariable{name, value, "'" + key + "' has no value",
                           "write it as key:value,key:value"};
      const auto& keys = allocator_keys();
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      const auto near = nearest(key, keys);
      return OddVariable{name, value, "there is no setting '" + key + "'",
                         near ? "did you mean " + *near + "?" : "known are: " + join(keys, ", ")};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<OddVariable> wrong_thread_setting(const Variables& variables, int64_t processors) {
  const std::string allowed = std::to_string(processors);
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const std::string value = value_of(variables, name);
    if (value.empty()) continue;
    if (!is_thread_list(value))
      return OddVariable{name, value, "that is no number of threads, and is ignored",
                         "set it to a number from 1 to " + allowed + ", or unset it"};
    const int64_t threads = number_in(value).value_or(1);
    if (threads > processors)
      return OddVariable{name, value,
                         "that is more than the " + allowed +
                             " processors this process may use: threads take turns, and each "
                             "barrier waits for all of them",
                         "unset it, or set at most " + allowed};
  }
  for (const char* name : {"GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    const std::string value = value_of(variables, name);
    if (value.empty() || value == "none" || value == "disabled") continue;
    return OddVariable{name, value,
                       "every process that sees it binds its threads to the same processors, so "
                       "that the ranks of one host crowd on a few",
                       "unset it where several ranks run on one host"};
  }
  const std::string binding = value_of(variables, "OMP_PROC_BIND");
  if (!binding.empty() && binding != "false" && binding != "FALSE" &&
      !value_of(variables, "OMP_PLACES").empty())
    return OddVariable{"OMP_PROC_BIND", binding,
                       "with OMP_PLACES every process binds its threads to the same processors, so "
                       "that the ranks of one host crowd on a few",
                       "unset both where several ranks run on one host"};
  return std::nullopt;
}

}  // namespace trainctl::doctor
