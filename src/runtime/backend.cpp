#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/attention.h"
#include "trainctl/base/error.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

using HeaderLines = std::vector<std::pair<std::string, std::string>>;

// OMP_NUM_THREADS as launchers set it per rank, if it holds one plain number.
std::optional<int64_t> omp_num_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) {
    return std::nullopt;
  }
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) {
    return std::nullopt;
  }
  return value;
}

constexpr int64_t kMostThreadsPerProcessor = 8;  // beyond that a step hardly ever ends

// OpenMP ends the process, or hangs in it, when it is refused a thread; a trial gives the user a
// reason instead (std::system_error, which the engine explains).
void require_threads(int64_t threads) {
  std::atomic<bool> all_there{false};
  std::vector<std::thread> trial;
  const auto join_all = [&] {
    all_there = true;
    all_there.notify_all();
    for (std::thread& thread : trial) thread.join();
  };
  try {
    for (int64_t i = 1; i < threads; ++i) trial.emplace_back([&] { all_there.wait(false); });
  } catch (const std::system_error&) {
    join_all();
    throw;
  }
  join_all();
}

// How many processes share the processors this one sees. A task of srun has its own where Slurm
// counts them per task.
int64_t sharing_processes(const ProcessWorld& world, const CpuBudget& budget) {
  const bool counted_per_task = world.source == "srun" && budget.slurm.has_value();
  return counted_per_task ? 1 : world.local_world_size;
}

std::string apply_threads(const BackendConfig& backend, const ProcessWorld& world) {
  const CpuBudget budget = cpu_budget();
  int64_t threads = backend.threads;
  std::string reason = "backend.threads";
  if (threads == 0) {
    const std::optional<int64_t> omp = omp_num_threads();
    const int64_t sharing = sharing_processes(world, budget);
    threads = omp.value_or(std::max<int64_t>(budget.usable / sharing, 1));
    reason = omp           ? "OMP_NUM_THREADS"
             : sharing > 1 ? budget.limited_by + " / " + std::to_string(sharing) + " processes"
                           : budget.limited_by;
  } else if (threads > kMostThreadsPerProcessor * budget.usable) {
    throw usage_error("backend.threads: " + std::to_string(threads) + " threads for " +
                      std::to_string(budget.usable) + " processors (" + budget.limited_by +
                      "); give at most as many as there are processors, or 0 to take them all");
  } else if (threads > budget.usable) {
    log_warning("backend.threads: " + std::to_string(threads) + " threads share " +
                std::to_string(budget.usable) + " processors (" + budget.limited_by +
                "); more threads than processors are usually much slower");
  }
  require_threads(threads);
  at::set_num_threads(static_cast<int>(threads));
  // ATen allows setting this pool's size once per process and creates it on first use.
  static std::once_flag interop_once;
  std::call_once(interop_once, [threads] {
    try {
      at::set_num_interop_threads(static_cast<int>(threads));
    } catch (const c10::Error&) {
      log_debug("the inter-op thread pool already runs; its size stays");
    }
  });
  return std::to_string(at::get_num_threads()) + " (" + reason + "; " +
         std::to_string(budget.usable) + " of " + std::to_string(budget.affinity) +
         " processors usable)";
}

std::string apply_matmul_precision(MatmulPrecision precision, const at::Device& device) {
  switch (precision) {
    case MatmulPrecision::kHighest:
      at::globalContext().setFloat32MatmulPrecision("highest");
      return "highest (fp32)";
    case MatmulPrecision::kHigh:
      at::globalContext().setFloat32MatmulPrecision("high");
      return device.is_cuda() ? "high (TF32)" : "high (TF32 where the processor has it)";
    case MatmulPrecision::kMedium:
      at::globalContext().setFloat32MatmulPrecision("medium");
      return device.is_cuda() ? "medium (TF32)" : "medium (bf16 where the processor has it)";
  }
  return "";
}

// cuBLAS reads this when its first handle is made; with anything else ATen refuses deterministic
// products (CUDA documentation, "cuBLAS: Results Reproducibility").
void require_deterministic_cublas() {
  const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  if (workspace == nullptr) {
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
  } else if (std::strcmp(workspace, ":4096:8") != 0 && std::strcmp(workspace, ":16:8") != 0) {
    throw environment_error(
        std::string("CUBLAS_WORKSPACE_CONFIG is \"") + workspace +
        "\", with which matrix products on CUDA are not repeatable; unset it or set "
        "it to :4096:8, or set backend.deterministic to false");
  }
}

std::string on_off(bool value) { return value ? "on" : "off"; }

HeaderLines apply_determinism(const BackendConfig& backend, const at::Device& device) {
  at::Context& context = at::globalContext();
  const bool deterministic = backend.deterministic;
  bool benchmark = backend.cudnn_benchmark;
  if (benchmark && (deterministic || backend.cudnn_deterministic)) {
    // Timing may choose another algorithm in the next run, whatever else is deterministic.
    log_warning(std::string("backend.cudnn_benchmark is turned off: ") +
                (deterministic ? "backend.deterministic" : "backend.cudnn_deterministic") +
                " is true, and algorithms chosen by timing differ between runs");
    benchmark = false;
  }
  if (deterministic && device.is_cuda()) {
    require_deterministic_cublas();
  }
  const bool cudnn_deterministic = deterministic || backend.cudnn_deterministic;
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // Filling every fresh tensor with NaN finds reads of uninitialised memory, which is ATen's tests'
  // business, and costs a pass over each tensor.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicMkldnn(deterministic);
  context.setDeterministicCuDNN(cudnn_deterministic);
  context.setBenchmarkCuDNN(benchmark);
  context.setAllowTF32CuDNN(backend.cudnn_allow_tf32);
  HeaderLines lines = {{"deterministic", on_off(deterministic)}};
  lines.emplace_back("cuDNN", "benchmark " + on_off(benchmark) + ", deterministic " +
                                  on_off(cudnn_deterministic) + ", TF32 " +
                                  on_off(backend.cudnn_allow_tf32) +
                                  (device.is_cuda() ? "" : " (no effect on CPU)"));
  return lines;
}

}  // namespace

HeaderLines apply_backend(const Config& config, const at::Device& device,
                          const ProcessWorld& world) {
  HeaderLines lines;
  lines.emplace_back("threads", apply_threads(config.backend, world));
  lines.emplace_back("fp32 matmul",
                     apply_matmul_precision(config.precision.float32_matmul_precision, device));
  for (auto& line : apply_determinism(config.backend, device)) {
    lines.push_back(std::move(line));
  }
  lines.emplace_back("attention", select_attention(config, device));
  return lines;
}

}  // namespace trainctl
