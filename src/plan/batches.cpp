#include <string>

#include "trainctl/base/error.h"
#include "trainctl/plan/plan.h"

namespace trainctl {
namespace {

std::string ranks_text(int64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

void require_positive(int64_t value, const char* key) {
  if (value > 0) return;
  throw usage_error(std::string("training.") + key + " is " + std::to_string(value) +
                    "; it must be 1 or more");
}

// The accumulation that makes up `training.global_batch_size`, which is given.
int64_t accumulation_for_global_batch(const TrainingConfig& training, int64_t ranks) {
  const int64_t global = training.global_batch_size;
  const int64_t micro = training.micro_batch_size;
  const int64_t together = micro * ranks;  // sequences of one micro-batch over all ranks
  if (global % together != 0) {
    const int64_t below = global / together * together;
    std::string fitting = std::to_string(below + together);
    if (below > 0) fitting = std::to_string(below) + " or " + fitting;
    std::string message = "training.global_batch_size " + std::to_string(global) +
                          " is not a multiple of micro_batch_size " + std::to_string(micro) +
                          " × " + ranks_text(ranks) + " = " + std::to_string(together) +
                          "; set global_batch_size to " + fitting;
    if (global % ranks == 0) {
      message +=
          ", or micro_batch_size to " + std::to_string(global / ranks) + " or a divisor of it";
    }
    throw usage_error(message);
  }
  return global / together;
}

}  // namespace

BatchPlan plan_batches(const TrainingConfig& training, int64_t seq_len, const WorldShape& world) {
  require_positive(training.micro_batch_size, "micro_batch_size");
  if (training.gradient_accumulation_steps.has_value()) {
    require_positive(*training.gradient_accumulation_steps, "gradient_accumulation_steps");
  }
  const int64_t ranks = world.world_size;
  BatchPlan plan;
  plan.micro_batch_size = training.micro_batch_size;
  if (training.global_batch_size == 0) {
    plan.gradient_accumulation_steps = training.gradient_accumulation_steps.value_or(1);
  } else {
    require_positive(training.global_batch_size, "global_batch_size");
    plan.gradient_accumulation_steps = accumulation_for_global_batch(training, ranks);
    const int64_t given =
        training.gradient_accumulation_steps.value_or(plan.gradient_accumulation_steps);
    if (given != plan.gradient_accumulation_steps) {
      throw usage_error("training.gradient_accumulation_steps " + std::to_string(given) +
                        " disagrees with global_batch_size " +
                        std::to_string(training.global_batch_size) + ", which takes " +
                        std::to_string(plan.gradient_accumulation_steps) + " of micro_batch_size " +
                        std::to_string(training.micro_batch_size) + " × " + ranks_text(ranks) +
                        "; remove one of the two keys");
    }
  }
  plan.global_batch_size = plan.micro_batch_size * plan.gradient_accumulation_steps * ranks;
  plan.tokens_per_step = plan.global_batch_size * seq_len;
  return plan;
}

std::string varying_shapes(const Config& config, const DataExtent& extent, const BatchPlan& batch) {
  if (!config.backend.cudnn_benchmark) return "";
  const int64_t full = extent.sequences_per_epoch - (extent.short_window_tokens > 0 ? 1 : 0);
  std::string shapes;
  if (full % batch.global_batch_size != 0) {
    shapes =
        "one step an epoch has " + std::to_string(full % batch.global_batch_size) + " sequences";
  }
  if (extent.short_window_tokens > 0) {
    if (!shapes.empty()) shapes += " and ";
    shapes += "one a window of " + std::to_string(extent.short_window_tokens) + " tokens";
  }
  if (shapes.empty()) return "";
  return "backend.cudnn_benchmark is on, but input shapes vary: " + shapes +
         ". Each new shape is timed anew; set backend.cudnn_benchmark to false if steps are short";
}

}  // namespace trainctl
