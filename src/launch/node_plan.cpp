#include "launch/node_plan.h"

#include <algorithm>

#include "launch/cpu_share.h"
#include "trainctl/base/error.h"
#include "trainctl/base/gpu_evidence.h"

namespace trainctl {
namespace {

bool is_cuda(const std::string& device) { return device.starts_with("cuda"); }

// A config says whether it wants GPUs; other programs are taken to want what is there.
bool wants_gpus(const LaunchJob& job, const VisibleDevices& visible) {
  return job.device != "cpu" && (is_cuda(job.device) || !visible.devices.empty());
}

// No GPU at all: why, which only the machine can tell.
std::string why_no_gpu(const VisibleDevices& visible, const fs::path& root) {
  if (visible.variable && visible.present > 0)
    return visible.text() + "; unset it or name some, as in CUDA_VISIBLE_DEVICES=0,1";
  return decide_gpu(gather_gpu_evidence(root)).why.text();
}

int64_t count_ranks(const LaunchJob& job, const VisibleDevices& visible, const fs::path& root) {
  const LaunchOptions& options = job.options;
  const auto gpus = static_cast<int64_t>(visible.devices.size());
  const auto cpus = std::max<int64_t>(1, static_cast<int64_t>(allowed_cpus().size()));
  switch (options.nproc_kind) {
    case NprocKind::kNumber:
      return options.nproc;
    case NprocKind::kCpu:
      return cpus;
    case NprocKind::kAuto:
      return wants_gpus(job, visible) && gpus > 0 ? gpus : cpus;
    case NprocKind::kGpu:
      if (gpus > 0) return gpus;
      throw environment_error(options.source("nproc") +
                              " is gpu, but no GPU can be used: " + why_no_gpu(visible, root));
  }
  return 1;
}

void check_gpus(const LaunchJob& job, const VisibleDevices& visible, int64_t ranks,
                const fs::path& root) {
  const auto gpus = static_cast<int64_t>(visible.devices.size());
  if (job.device.empty() || !wants_gpus(job, visible)) return;
  if (job.device.find(':') != std::string::npos && ranks > 1) {
    throw usage_error("backend.device names one GPU, " + job.device + ", for " +
                      std::to_string(ranks) + " ranks; set it to cuda, and each takes its own");
  }
  if (gpus == 0)
    throw environment_error("backend.device is " + job.device + ": " + why_no_gpu(visible, root));
  if (ranks <= gpus) return;
  throw usage_error(std::to_string(ranks) + " ranks (" + job.options.source("nproc") +
                    ") need a GPU each, but " + visible.text() + "; lower " +
                    job.options.source("nproc") + (visible.variable ? ", show more of them" : "") +
                    ", or set backend.device to cpu");
}

// GPUs that each rank is given alone: by --virtual-local-rank, and MIG devices, of which CUDA shows
// a process only the first.
std::vector<std::string> own_devices(const LaunchJob& job, const VisibleDevices& visible,
                                     int64_t ranks) {
  const bool has_mig = std::any_of(visible.devices.begin(), visible.devices.end(),
                                   [](const VisibleDevice& device) { return device.is_mig(); });
  const bool for_mig = has_mig && ranks > 1 && job.target.is_trainctl() && job.device != "cpu";
  if (!job.options.virtual_local_rank && !for_mig) return {};
  if (job.device == "cpu" || (visible.devices.empty() && !visible.variable)) return {};
  if (static_cast<int64_t>(visible.devices.size()) < ranks) {
    throw usage_error(job.options.source("virtual-local-rank") + " gives each of " +
                      std::to_string(ranks) + " ranks a GPU of its own, but " + visible.text() +
                      "; lower " + job.options.source("nproc"));
  }
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < ranks; ++rank)
    names.push_back(visible.devices[static_cast<size_t>(rank)].name);
  return names;
}

// A rank that is not there would be a stream that nobody misses until it is needed.
void check_local_ranks(const LaunchOptions& options, int64_t ranks) {
  const auto check = [&](const char* flag, int64_t rank) {
    if (rank < ranks) return;
    throw usage_error(options.source(flag) + " names local rank " + std::to_string(rank) +
                      ", but there are " + std::to_string(ranks) + " (" + options.source("nproc") +
                      "), numbered from 0");
  };
  for (const auto& [rank, streams] : options.redirects.by_rank) check("redirects", rank);
  for (const auto& [rank, streams] : options.tee.by_rank) check("tee", rank);
  if (!options.local_ranks_filter) return;
  for (const int64_t rank : *options.local_ranks_filter) check("local-ranks-filter", rank);
}

void plan_threads(const LaunchJob& job, const EnvironmentLookup& variable, const fs::path& root,
                  NodePlan* plan) {
  if (const auto given = variable("OMP_NUM_THREADS")) {
    plan->thread_text = "OMP_NUM_THREADS=" + *given + " as given";
  } else {
    const CpuBudget budget = cpu_budget(root);
    plan->threads = threads_per_rank(budget, plan->ranks);
    plan->thread_text = std::to_string(plan->threads) +
                        (plan->threads == 1 ? " thread" : " threads") + " per rank (" +
                        budget.limited_by + " " + std::to_string(budget.usable) + ")";
  }
  if (job.config_threads > 0)
    plan->thread_text = std::to_string(job.config_threads) +
                        (job.config_threads == 1 ? " thread" : " threads") +
                        " per rank (backend.threads)";
}

}  // namespace

NodePlan make_node_plan(const LaunchJob& job, const EnvironmentLookup& variable,
                        const fs::path& root) {
  // An empty CUDA_VISIBLE_DEVICES hides all GPUs, so that it is not the same as none.
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  const VisibleDevices visible = visible_devices(
      list != nullptr ? std::optional<std::string>(list) : std::nullopt, present_gpus(root));
  NodePlan plan;
  plan.ranks = count_ranks(job, visible, root);
  check_local_ranks(job.options, plan.ranks);
  check_gpus(job, visible, plan.ranks, root);
  plan.own_devices = own_devices(job, visible, plan.ranks);
  plan_threads(job, variable, root, &plan);

  const bool uses_gpus = wants_gpus(job, visible);
  if (uses_gpus && !job.device.empty()) plan.gpu_text = visible.text();
  if (!job.options.pin_cpus || (plan.ranks == 1 && !uses_gpus)) return plan;
  std::vector<std::string> pci;
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    pci.push_back(uses_gpus && index < visible.devices.size() ? visible.devices[index].pci : "");
  }
  plan.cpus = share_cpus(allowed_cpus(), pci, root);
  return plan;
}

}  // namespace trainctl
