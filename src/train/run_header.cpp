#include <torch/headeronly/version.h>

#include "train/trainer_session.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/report/header.h"

namespace trainctl {

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
