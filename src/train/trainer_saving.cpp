// Checkpoints while training, and the last one.
#include <cstdio>

#include "train/trainer_session.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g s", seconds);
  return buffer;
}

}  // namespace

void TrainingSession::make_saver() {
  if (run_id_.empty()) run_id_ = draw_token();
  const std::string drawn = communicator_.is_main() ? draw_token() + run_id_ : "";
  const std::string identity = communicator_.from_main(drawn, "start: identity of the run");
  constexpr size_t kTokenDigits = 16;
  SaverOptions options;
  // Every rank by the path that it knows; that they lead to the same place was proved.
  options.checkpoints = RunDirectory::checkpoints_of(RunDirectory::path_of(config_));
  options.run = identity.substr(kTokenDigits);
  options.retention = {config_.checkpoint.keep_latest, config_.checkpoint.keep_every,
                       config_.checkpoint.keep_best};
  options.asynchronous = config_.checkpoint.async;
  options.shard_bytes = static_cast<uint64_t>(config_.checkpoint.shard_mb * (1 << 20));
  if (communicator_.is_main()) options.sync_first = directory_->metrics();
  saver_ = std::make_unique<CheckpointSaver>(options, identity.substr(0, kTokenDigits),
                                             device_->torch_device(), communicator_);
  // Pinned memory takes its time to be had, and none of a step's.
  if (device_->torch_device().is_cuda() && !config_.checkpoint.interval.never()) prepare_saver();
}

void TrainingSession::prepare_saver() {
  if (saver_prepared_) return;
  saver_prepared_ = true;
  saver_->prepare(content());
}

CheckpointContent TrainingSession::content() {
  CheckpointContent content;
  content.step = state_.step;
  for (const NamedParameter& parameter : model_->parameters()) {
    content.model.push_back({parameter.name, parameter.tensor.detach()});
  }
  content.optimizer = optimizer_->state();
  if (validated_step_ == state_.step && datasets_.validation != nullptr) {
    content.validation_loss = state_.last_validation_loss;
  }
  if (!communicator_.is_main()) return content;
  state_.scaler = scaler_->state();
  state_.nonfinite_run = static_cast<int64_t>(nonfinite_run_.item<double>());
  content.state_json = state_to_json(state_, config_);
  return content;
}

// Rank 0's part of the vote: is a save due, and can it begin?
bool TrainingSession::wants_save() {
  if (checkpoint_clock_.due(voting_step_)) save_due_ = true;
  if (!save_due_) return false;
  if (saver_->ready()) return true;
  if (communicator_.is_main() && !warned_of_slow_save_) {
    log_warning("saving takes longer than checkpoint.interval: the checkpoint of step " +
                std::to_string(saver_->step()) + " is being written since " +
                seconds_text(saver_->seconds()) + ", and at step " + std::to_string(voting_step_) +
                " the next one was due. It is put off until that one is done; training does not "
                "wait. Raise checkpoint.interval, or set run.output_dir on a faster file system");
  }
  warned_of_slow_save_ = true;
  return false;
}

// After a vote: the save under way may have come a phase further.
void TrainingSession::follow_save() {
  if (!verdict_.save_settled) return;
  saver_->advance();
  note_save();
}

void TrainingSession::save(bool at_this_step) {
  enter(state_.step, "saving a checkpoint");
  using Limit = std::optional<std::chrono::milliseconds>;
  const bool free = saver_->finish(at_this_step ? Limit() : Limit(CheckpointSaver::kPatience));
  note_save();
  if (!free) return;  // still due
  save_due_ = false;
  const CheckpointContent now = content();
  saved_with_loss_ = now.validation_loss.has_value();
  saver_->begin(now, /*wait=*/false);
  note_save();
}

void TrainingSession::note_save() {
  const std::string error = record_save();
  if (error.empty()) return;
  if (config_.checkpoint.on_error == SaveErrorPolicy::kStop) {
    communicator_.together("saving a checkpoint", [&] {
      if (communicator_.is_main()) throw checkpoint_error(error);
    });
  }
  if (!communicator_.is_main()) return;
  log_warning("checkpoint not saved, training goes on and tries again at the next interval: " +
              error);
}

// Of the save that has ended last: its record, or why it failed.
std::string TrainingSession::record_save() {
  const std::optional<SaveOutcome> outcome = saver_->take_outcome();
  if (!outcome) return "";
  if (!outcome->error.empty()) return outcome->error;
  saved_step_ = outcome->step;
  log_debug("checkpoint " + outcome->path.string() + ": " + human_bytes(outcome->bytes) + " in " +
            seconds_text(outcome->seconds) + ", training waited " + seconds_text(outcome->stall));
  CheckpointRecord record;
  record.step = state_.step;
  record.saved_step = outcome->step;
  record.bytes = outcome->bytes;
  record.seconds = outcome->seconds;
  record.stall = outcome->stall;
  record.asynchronous = outcome->asynchronous;
  sinks_->on_checkpoint(record);
  return "";
}

// The save under way is waited for; should it fail, a later one decides.
void TrainingSession::finish_save() {
  saver_->finish();
  const std::string error = record_save();
  if (!error.empty() && communicator_.is_main()) log_warning("checkpoint not saved: " + error);
}

// The last checkpoint must not be lost. Returns why it could not be saved, the same on all ranks.
std::string TrainingSession::save_last() {
  finish_save();
  // One that was begun before the last validation does not know its loss.
  const bool lacks_loss =
      config_.checkpoint.keep_best > 0 && validated_step_ == state_.step && !saved_with_loss_;
  if (saved_step_ == state_.step && !lacks_loss) return "";
  saver_->begin(content(), /*wait=*/true);
  return record_save();
}

}  // namespace trainctl
