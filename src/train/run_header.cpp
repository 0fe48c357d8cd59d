#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>

#include "train/trainer_session.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/plan/slow_paths.h"
#include "trainctl/report/header.h"

namespace trainctl {
namespace {

// As apply_backend divides them: a task of srun has its own where Slurm counts them per task.
int64_t own_processors(const ProcessWorld& world) {
  const CpuBudget budget = cpu_budget();
  const bool per_task = world.source == "srun" && budget.slurm.has_value();
  return std::max<int64_t>(1, budget.usable / (per_task ? 1 : world.local_world_size));
}

std::string value_of(const HeaderLines& lines, const std::string& label) {
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const auto& entry) { return entry.first == label; });
  return line == lines.end() ? "" : line->second;
}

}  // namespace

// Rank 0 alone says it: it is the one that prints the header.
void TrainingSession::warn_of_slow_paths() const {
  SlowPathFacts facts;
  const Abilities abilities = device_->abilities();
  facts.cuda = device_->torch_device().is_cuda();
  facts.tf32 = abilities.tf32;
  facts.fast_bf16 = abilities.fast_bf16;
  facts.threads = state_.threads;
  facts.processors = own_processors(communicator_.world());
  facts.attention = value_of(backend_lines_, "attention");
  facts.cpu_capability = at::get_cpu_capability();
  facts.varying_shapes = varying_shapes_;
  facts.validation_sequences = datasets_.validation ? datasets_.validation->size() : 0;
#ifndef NDEBUG
  facts.optimized_build = false;
#endif
  for (const SlowPath& path : slow_paths(config_, plan_, facts))
    log_warning("slow path: " + path.warning);
}

void TrainingSession::print_header() const {
  HeaderLines lines;
  lines.emplace_back("trainctl", std::string(kVersion) + " (" + kBuildId + "), LibTorch " +
                                     std::to_string(TORCH_VERSION_MAJOR) + "." +
                                     std::to_string(TORCH_VERSION_MINOR) + "." +
                                     std::to_string(TORCH_VERSION_PATCH));
  const HeaderLines device = device_->report();
  lines.insert(lines.end(), device.begin(), device.end());
  if (!why_not_cuda_.empty()) lines.emplace_back("no GPU", why_not_cuda_);
  lines.insert(lines.end(), backend_lines_.begin(), backend_lines_.end());
  const HeaderLines ranks = communicator_.report();
  lines.insert(lines.end(), ranks.begin(), ranks.end());
  if (self_test_) lines.emplace_back("self-test", *self_test_);
  lines.emplace_back("parameters", human_count(static_cast<double>(plan_.parameter_count)) + " (" +
                                       std::to_string(plan_.parameter_count) + ")");
  for (const std::string& group : optimizer_->describe_groups())
    lines.emplace_back("optimizer", group);
  lines.emplace_back(
      "data", std::to_string(datasets_.train->size()) + " training windows of " +
                  std::to_string(config_.data.seq_len) + " tokens, " +
                  (datasets_.validation ? std::to_string(datasets_.validation->size()) : "no") +
                  " for validation");
  const BatchPlan& batch = plan_.batch;
  lines.emplace_back("step",
                     std::to_string(batch.global_batch_size) +
                         " sequences = " + std::to_string(batch.tokens_per_step) +
                         " tokens (micro-batch " + std::to_string(batch.micro_batch_size) +
                         ", accumulation " + std::to_string(batch.gradient_accumulation_steps) +
                         (state_.ranks > 1 ? ", ranks " + std::to_string(state_.ranks) : "") + ")");
  lines.emplace_back(
      "steps",
      (plan_.total_steps > 0 ? std::to_string(plan_.total_steps) : "until training.max_time") +
          (state_.step > 0 ? ", resuming after " + std::to_string(state_.step) : ""));
  lines.emplace_back("output", directory_->path().string());
  const std::string header = format_header(lines);
  log_->write(header);
  host_.print(header);
}

}  // namespace trainctl
