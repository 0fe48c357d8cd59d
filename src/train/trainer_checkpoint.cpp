#include <ATen/Parallel.h>

#include "train/open_checkpoint.h"
#include "train/trainer_session.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/train/load_parameters.h"

namespace trainctl {
namespace {

// Those differences in the data section that make other samples of the same files.
std::string data_changes(const std::vector<std::string>& differences) {
  std::vector<std::string> changes;
  for (const std::string& difference : differences) {
    const bool harmless =
        difference.starts_with("data.workers") || difference.starts_with("data.prefetch");
    if (difference.starts_with("data.") && !harmless) changes.push_back(difference);
  }
  return join(changes, ", ");
}

[[noreturn]] void refuse_other_data(const std::string& where,
                                    const std::vector<std::string>& differences) {
  const std::string changes = data_changes(differences);
  const std::string cause = changes.empty()
                                ? "the training data have changed"
                                : "the config gives other training data (" + changes + ")";
  const std::string cure = changes.empty() ? "bring the old data back" : "put the config back";
  throw checkpoint_error(cause + " since checkpoint '" + where +
                         "' was written, so its position in them means nothing; " + cure +
                         ", or start anew with --resume never");
}

// What makes a resumed run differ from an uninterrupted one in the last bits, or in its batches.
void warn_of_other_rounding(const TrainingState& now, const TrainingState& saved,
                            const Config& config) {
  if (now.ranks != saved.ranks) {
    log_warning("resuming with " + std::to_string(now.ranks) + " ranks a run made with " +
                std::to_string(saved.ranks) +
                (config.training.global_batch_size == 0
                     ? ": without training.global_batch_size a step has another number of "
                       "sequences now"
                     : ": the same samples in the same order, equal to rounding"));
  }
  if (now.threads != saved.threads) {
    log_warning("resuming with " + std::to_string(now.threads) + " threads a run made with " +
                std::to_string(saved.threads) +
                ": results will agree to rounding, not bit for bit (set "
                "backend.threads to " +
                std::to_string(saved.threads) + ")");
  }
}

}  // namespace

// Rank 0 chooses, so that all ranks load the same one; each verifies it.
void TrainingSession::find_checkpoint() {
  communicator_.together("start: checkpoint", [this] {
    if (communicator_.is_main()) open_newest();
  });
  const std::string path = communicator_.from_main(
      checkpoint_ ? fs::absolute(checkpoint_->path).string() : "", "start: checkpoint");
  communicator_.together("start: loading of the checkpoint", [&] {
    if (path.empty()) return;
    if (!communicator_.is_main()) {
      std::error_code ignored;
      if (!fs::is_directory(path, ignored)) {
        throw checkpoint_error("'" + path +
                               "', from which rank 0 resumes, is not there on the "
                               "host of rank " +
                               std::to_string(communicator_.world().rank) +
                               "; put run.output_dir on a file system that all hosts share");
      }
      checkpoint_ = load_checkpoint(path);
    }
    adopt_state();
  });
}

void TrainingSession::open_newest() {
  const bool began = options_.restarted && !list_checkpoints(directory_->checkpoints()).empty();
  if (!is_automatic(options_.resume) && !began) {
    checkpoint_ = open_checkpoint(options_.resume, ExitCode::kCheckpoint);
    make_way_for(*checkpoint_);
    return;
  }
  checkpoint_ = load_newest_checkpoint(directory_->checkpoints());
  if (!checkpoint_ && fs::exists(directory_->metrics())) {
    log_warning("'" + directory_->path().string() +
                "' holds an earlier run without a checkpoint: starting at step 0, "
                "its metrics are replaced");
  }
}

// Two pasts must not mix in one run. A run goes back to an earlier checkpoint of its own by moving
// the later ones aside; another run's checkpoint begins only a run that has none.
void TrainingSession::make_way_for(const LoadedCheckpoint& chosen) {
  const std::string run = "run '" + directory_->path().string() + "'";
  const bool own = fs::weakly_canonical(chosen.path.parent_path()) ==
                   fs::weakly_canonical(directory_->checkpoints());
  const auto present = list_checkpoints(directory_->checkpoints());
  if (!own && !present.empty()) {
    throw usage_error(run + " has a past of its own, up to step " +
                      std::to_string(present.back().first) + "; --resume " + options_.resume +
                      " would put another run's in its place. Drop --resume to continue the run, "
                      "or choose another run.name for one that begins there");
  }
  for (const auto& [step, path] : present) {
    if (step <= chosen.step) continue;
    log_info(run + " goes back to step " + std::to_string(chosen.step) +
             "; moved aside: " + move_aside(path).string());
  }
}

void TrainingSession::adopt_state() {
  const std::string where = checkpoint_->path.string();
  SavedState saved = state_from_json(checkpoint_->state_json, where);
  const std::vector<std::string> differences =
      config_differences(saved.config_json, config_, where);
  if (!differences.empty() && communicator_.is_main()) {
    log_warning("the config differs from the checkpoint's (checkpoint → now; now counts):\n  " +
                join(differences, "\n  "));
  }
  const TrainingState now = state_;
  state_ = saved.state;
  if (finished()) return;
  if (now.dataset_fingerprint != state_.dataset_fingerprint) {
    refuse_other_data(where, differences);
  }
  if (communicator_.is_main()) warn_of_other_rounding(now, state_, config_);
  state_.threads = now.threads;
  state_.ranks = now.ranks;
}

void TrainingSession::restore() {
  if (!checkpoint_) return;
  const std::string where = checkpoint_->path.string();
  load_parameters(checkpoint_->model, *model_, where);
  optimizer_->load_state(checkpoint_->optimizer);
  scaler_->load_state(state_.scaler);
  saved_step_ = state_.step;
  if (communicator_.is_main()) {
    log_info("resuming from " + where + " at step " + std::to_string(state_.step));
  }
  checkpoint_.reset();  // unmaps the files
}

void TrainingSession::save(bool required) {
  enter(state_.step, "saving a checkpoint");
  if (!communicator_.is_main()) return;
  CheckpointContent content;
  content.step = state_.step;
  for (const NamedParameter& parameter : model_->parameters()) {
    content.model.push_back({parameter.name, parameter.tensor.detach()});
  }
  content.optimizer = optimizer_->state();
  state_.scaler = scaler_->state();
  state_.nonfinite_run = static_cast<int64_t>(nonfinite_run_.item<double>());
  content.state_json = state_to_json(state_, config_);
  sinks_->flush();  // metrics up to this step are on disk before the checkpoint that follows them
  try {
    save_checkpoint(directory_->checkpoints(), content, config_.checkpoint.keep_latest);
    saved_step_ = state_.step;
  } catch (const UserError& error) {
    if (required) throw;
    log_warning(
        std::string(
            "checkpoint not saved, training goes on and tries again at the next interval: ") +
        error.what());
  }
}

}  // namespace trainctl
