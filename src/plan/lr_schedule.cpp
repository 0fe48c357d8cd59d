#include "trainctl/plan/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainctl {

bool needs_total_steps(const LrSchedulerConfig& scheduler) {
  if (scheduler.warmup_ratio > 0) return true;
  switch (scheduler.type) {
    case ScheduleType::kConstant:
    case ScheduleType::kInverseSqrt:
      return false;
    case ScheduleType::kLinear:
    case ScheduleType::kCosine:
    case ScheduleType::kWarmupStableDecay:
      return true;
  }
  return true;
}

int64_t planned_warmup_steps(const LrSchedulerConfig& scheduler, int64_t total_steps) {
  if (scheduler.warmup_ratio <= 0) return scheduler.warmup_steps;
  return std::llround(scheduler.warmup_ratio * static_cast<double>(total_steps));
}

int64_t planned_decay_steps(const LrSchedulerConfig& scheduler, int64_t total_steps,
                            int64_t warmup_steps) {
  const int64_t wanted =
      scheduler.decay_steps > 0
          ? scheduler.decay_steps
          : std::llround(scheduler.decay_ratio * static_cast<double>(total_steps));
  return std::clamp<int64_t>(wanted, 0, std::max<int64_t>(total_steps - warmup_steps, 0));
}

double learning_rate_at(const LrSchedulerConfig& scheduler, double base_rate, int64_t step,
                        int64_t total_steps, int64_t warmup_steps) {
  if (step < warmup_steps) {
    return base_rate * (static_cast<double>(step + 1) / static_cast<double>(warmup_steps));
  }
  const double min_rate = scheduler.min_learning_rate;
  // What is left of (base − min); a run no longer than its warm-up has nothing left after it.
  const auto between = [&](double rest) { return min_rate + (base_rate - min_rate) * rest; };
  const double length = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
  const double t = total_steps <= warmup_steps
                       ? 1.0
                       : std::clamp(static_cast<double>(step - warmup_steps) / length, 0.0, 1.0);
  switch (scheduler.type) {
    case ScheduleType::kConstant:
      return base_rate;
    case ScheduleType::kLinear:
      return between(1.0 - t);
    case ScheduleType::kCosine:
      return between((1.0 + std::cos(std::numbers::pi * t)) / 2.0);
    case ScheduleType::kInverseSqrt: {
      const double ratio =
          static_cast<double>(std::max<int64_t>(warmup_steps, 1)) / static_cast<double>(step + 1);
      return std::max(min_rate, base_rate * std::sqrt(ratio));
    }
    case ScheduleType::kWarmupStableDecay: {
      const int64_t decay = planned_decay_steps(scheduler, total_steps, warmup_steps);
      if (step >= total_steps) return min_rate;
      if (step < total_steps - decay) return base_rate;
      return between(static_cast<double>(total_steps - step) / static_cast<double>(decay));
    }
  }
  return base_rate;
}

}  // namespace trainctl
