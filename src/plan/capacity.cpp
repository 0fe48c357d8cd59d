#include "trainctl/plan/capacity.h"

#include <algorithm>

#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr uint64_t kParameterBytes = 4;
constexpr uint64_t kFileOverhead = 32 << 10;  // headers, state.json and manifest of a checkpoint

// exp_avg and exp_avg_sq, or the momentum.
uint64_t moments(const OptimizerConfig& optimizer) {
  if (optimizer.type != OptimizerType::kSgd) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

}  // namespace

uint64_t training_state_bytes(const OptimizerConfig& optimizer, int64_t parameters) {
  return static_cast<uint64_t>(parameters) * kParameterBytes * (2 + moments(optimizer));
}

uint64_t checkpoint_bytes(const OptimizerConfig& optimizer, int64_t parameters) {
  return static_cast<uint64_t>(parameters) * kParameterBytes * (1 + moments(optimizer));
}

uint64_t checkpoint_copy_bytes(const Config& config, int64_t parameters, int64_t ranks) {
  if (!config.checkpoint.async || config.checkpoint.interval.never()) return 0;
  const auto parts = static_cast<uint64_t>(std::max<int64_t>(ranks, 1));
  return (checkpoint_bytes(config.optimizer, parameters) + parts - 1) / parts;
}

void require_memory(const Config& config, int64_t parameters, uint64_t memory_bytes,
                    int64_t sharing_processes) {
  const auto processes = static_cast<uint64_t>(sharing_processes);
  const uint64_t needed = training_state_bytes(config.optimizer, parameters) * processes;
  if (memory_bytes == 0 || needed <= memory_bytes) return;
  throw usage_error(
      "the model does not fit: " + human_count(static_cast<double>(parameters)) +
      " parameters need " + human_bytes(needed) + " for weights, gradients and optimizer state" +
      (processes > 1 ? " of the " + std::to_string(processes) + " processes of this host together"
                     : "") +
      ", and the device has " + human_bytes(memory_bytes) +
      "; lower model.vocab_size, model.d_model or model.n_layers");
}

void require_disk(const fs::path& folder, const OptimizerConfig& optimizer, int64_t parameters) {
  const uint64_t weights = static_cast<uint64_t>(parameters) * kParameterBytes;
  const uint64_t needed = checkpoint_bytes(optimizer, parameters) + weights + kFileOverhead;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed) return;
  throw usage_error("a checkpoint and the final weights of this model take " + human_bytes(needed) +
                    ", and '" + folder.string() + "' has " + human_bytes(space.available) +
                    " free; free some space or set run.output_dir elsewhere");
}

std::string disk_warning(const fs::path& folder, const Config& config, int64_t parameters,
                         int64_t present) {
  const uint64_t one = checkpoint_bytes(config.optimizer, parameters) + kFileOverhead;
  const CheckpointConfig& kept = config.checkpoint;
  const int64_t most = kept.interval.never() ? 1 : kept.keep_latest + kept.keep_best + 1;
  const int64_t more = std::max<int64_t>(most - present, 1);
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available / one >= static_cast<uint64_t>(more)) return "";
  return "'" + folder.string() + "' has " + human_bytes(space.available) + " free, and " +
         std::to_string(more) + " more checkpoints of " + human_bytes(one) +
         " are to come there (checkpoint.keep_latest " + std::to_string(kept.keep_latest) +
         ", and one in the making): saves will fail once it is full. Free some space, lower "
         "checkpoint.keep_latest, or set run.output_dir elsewhere";
}

}  // namespace trainctl
