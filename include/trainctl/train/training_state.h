// What a checkpoint's state.json holds beside the tensors (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/config/config.h"
#include "trainctl/data/data.h"
#include "trainctl/train/grad_scaler.h"

namespace trainctl {

struct TrainingState {
  int64_t step = 0;    // updates done, skipped ones included
  int64_t tokens = 0;  // valid targets seen
  int64_t samples = 0;
  DataPosition position;
  double seconds = 0;         // of training, over all resumes
  int64_t nonfinite_run = 0;  // consecutive steps without a finite gradient
  GradScaler::State scaler = {1.0, 0};
  // best: what early stopping compares with, by its min_delta; lowest: of all.
  double best_validation_loss = std::numeric_limits<double>::infinity();
  double lowest_validation_loss = std::numeric_limits<double>::infinity();
  int64_t validations_without_improvement = 0;
  bool validation_pending = false;  // that of this step was cut short by a stop request
  std::optional<double> last_loss, last_validation_loss;
  std::string dataset_fingerprint;
  int64_t threads = 0;
  int64_t ranks = 1;
  std::string kernels;  // what computed: another choice rounds in another way
};

std::string state_to_json(const TrainingState& state, const Config& config);

struct SavedState {
  TrainingState state;
  std::string config_json;  // the config the checkpoint was made with
};
// The choices that decide how this machine rounds: processor, instruction sets, device.
std::string kernel_choices(const std::string& device);

// `where` names the checkpoint in errors (checkpoint_error).
SavedState state_from_json(const std::string& text, const std::string& where);

// "optimizer.learning_rate: 0.001 → 0.0003", one per difference, with what it means where that does
// not go without saying (docs/resume.md). Throws checkpoint_error for a difference that cannot be
// honoured: another model, for no tensor could then be matched.
std::vector<std::string> config_differences(const std::string& saved_config_json, const Config& now,
                                            const std::string& where);

}  // namespace trainctl
