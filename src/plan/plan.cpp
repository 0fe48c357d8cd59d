#include "trainctl/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "trainctl/base/error.h"
#include "trainctl/plan/lr_schedule.h"

namespace trainctl {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t full_windows(const DataExtent& extent) {
  return extent.sequences_per_epoch - (extent.short_window_tokens > 0 ? 1 : 0);
}

// Number of the first step after which `max_tokens` have been seen.
int64_t steps_for_tokens(int64_t max_tokens, const DataExtent& extent, const BatchPlan& batch,
                         int64_t seq_len) {
  const int64_t full_tokens = full_windows(extent) * seq_len;
  const int64_t epoch_tokens = full_tokens + extent.short_window_tokens;
  const int64_t whole_epochs = max_tokens / epoch_tokens;
  const int64_t rest = max_tokens % epoch_tokens;
  // Within an epoch the short window's step comes last; until then steps hold full windows.
  const int64_t epoch_steps = steps_per_epoch(extent, batch.global_batch_size);
  const int64_t rest_steps =
      rest > full_tokens ? epoch_steps : ceil_div(rest, batch.tokens_per_step);
  return whole_epochs * epoch_steps + rest_steps;
}

int64_t steps_for_epochs(double epochs, int64_t epoch_steps) {
  const double steps = epochs * static_cast<double>(epoch_steps);
  // 0.1 epochs of 30 steps are 3 steps, although the product is a little more than 3.
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(steps * (1 - 1e-12))), 1);
}

int64_t planned_total_steps(const Config& config, const DataExtent& extent, const RunPlan& plan) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  int64_t total = kUnlimited;
  const TrainingConfig& training = config.training;
  if (training.max_steps > 0) total = std::min(total, training.max_steps);
  if (training.max_tokens > 0) {
    total = std::min(
        total, steps_for_tokens(training.max_tokens, extent, plan.batch, config.data.seq_len));
  }
  if (training.epochs > 0) {
    total = std::min(total, steps_for_epochs(training.epochs, plan.steps_per_epoch));
  }
  if (total != kUnlimited) return total;
  if (training.max_time > 0) return 0;
  throw usage_error(
      "nothing limits the run; set training.max_steps, training.max_tokens, training.epochs or "
      "training.max_time");
}

void require_known_length(const LrSchedulerConfig& scheduler, int64_t total_steps) {
  if (total_steps > 0 || !needs_total_steps(scheduler)) return;
  throw usage_error(
      std::string(scheduler.warmup_ratio > 0
                      ? "lr_scheduler.warmup_ratio"
                      : "lr_scheduler.type (linear, cosine and warmup_stable_decay)") +
      " depends on the number of steps, which training.max_time alone does not give; set "
      "training.max_steps, max_tokens or epochs too, or " +
      (scheduler.warmup_ratio > 0 ? "use lr_scheduler.warmup_steps"
                                  : "use the schedule constant or inverse_sqrt"));
}

void warn_about_schedule(const LrSchedulerConfig& scheduler, RunPlan* plan) {
  if (plan->total_steps == 0) return;
  const std::string run = std::to_string(plan->total_steps) + " steps";
  if (plan->warmup_steps >= plan->total_steps) {
    plan->warnings.push_back("lr_scheduler: the warm-up of " + std::to_string(plan->warmup_steps) +
                             " steps is not shorter than the run of " + run +
                             "; the rest of the schedule never comes");
    return;
  }
  if (scheduler.type == ScheduleType::kWarmupStableDecay &&
      scheduler.decay_steps > plan->total_steps - plan->warmup_steps) {
    plan->warnings.push_back("lr_scheduler.decay_steps " + std::to_string(scheduler.decay_steps) +
                             " is shortened to the " +
                             std::to_string(plan->total_steps - plan->warmup_steps) +
                             " steps that the warm-up leaves of the run of " + run);
  }
}

}  // namespace

int64_t steps_per_epoch(const DataExtent& extent, int64_t global_batch_size) {
  return ceil_div(full_windows(extent), global_batch_size) +
         (extent.short_window_tokens > 0 ? 1 : 0);
}

RunPlan make_plan(const Config& config, const DataExtent& extent, const WorldShape& world) {
  RunPlan plan;
  plan.batch = plan_batches(config.training, config.data.seq_len, world);
  if (extent.sequences_per_epoch <= 0) {
    throw data_error("data.train holds no sequence; give it at least one window of data.seq_len " +
                     std::to_string(config.data.seq_len) + " tokens");
  }
  plan.steps_per_epoch = steps_per_epoch(extent, plan.batch.global_batch_size);
  plan.total_steps = planned_total_steps(config, extent, plan);
  require_known_length(config.lr_scheduler, plan.total_steps);
  plan.warmup_steps = planned_warmup_steps(config.lr_scheduler, plan.total_steps);
  plan.parameter_count = count_parameters(config.model);
  plan.run_dir = (std::filesystem::path(config.run.output_dir) / config.run.name).string();
  warn_about_schedule(config.lr_scheduler, &plan);
  return plan;
}

}  // namespace trainctl
