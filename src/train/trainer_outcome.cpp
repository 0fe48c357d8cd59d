// How a run ends, and what is said of one that has ended already.
#include <cmath>
#include <cstdlib>

#include "train/trainer_session.h"
#include "trainctl/base/stop.h"
#include "trainctl/model/model.h"
#include "trainctl/report/sinks.h"

namespace trainctl {
namespace {

// A launcher passes a signal on to every rank; which of them was first to see it says nothing.
std::string stopped_rank_text(int64_t rank) {
  if (rank <= 0 || std::getenv("TORCHELASTIC_RUN_ID") != nullptr) return "";
  return " to rank " + std::to_string(rank);
}

}  // namespace

// Nothing is left to train. What a finished run should hold and has lost is made again.
ExitCode TrainingSession::say_finished() {
  if (communicator_.is_main()) host_.print(finished_text() + "\n");
  // A run that took its one checkpoint from elsewhere has nothing of its own.
  const bool own = communicator_.is_main() && fs::exists(directory_->resolved_config());
  std::error_code ignored;
  const bool weights_lost = own && !fs::exists(directory_->weights(), ignored);
  const std::string needed = weights_lost || options_.print_param_hash ? "model" : "";
  if (communicator_.from_main(needed, "start: model").empty()) return ExitCode::kOk;
  communicator_.together("start: model", [this] { build(); });
  communicator_.together("saving of the weights", [&] {
    if (!weights_lost) return;
    save_weights();
    host_.print("wrote its weights again: " + directory_->weights().string() + "\n");
  });
  if (options_.print_param_hash)
    host_.print("param_hash " + to_hex(parameter_hash(*model_)) + "\n");
  return ExitCode::kOk;
}

std::string TrainingSession::finished_text() const {
  const std::string steps = std::to_string(state_.step);
  const std::string run = "run '" + directory_->path().string() + "'";
  if (!is_automatic(options_.resume) && !fs::exists(directory_->resolved_config())) {
    return "checkpoint '" + checkpoint_->path.string() + "' is at step " + steps +
           ", where training ends by this config: nothing is left to train for " + run +
           ". Raise training.max_steps (or the limit that is set) to train on.";
  }
  if (stopped_early()) {
    return run + " is finished: it stopped early after " + steps +
           " steps, as the validation loss no longer improved. Raise "
           "validation.early_stopping.patience to train on, or start anew with --resume never.";
  }
  return run + " is finished: " + steps +
         " steps done. Raise its limit to train on, or start anew with --resume never.";
}

ExitCode TrainingSession::finish(LoopEnd end) {
  bool done = end == LoopEnd::kFinished || end == LoopEnd::kStoppedEarly;
  if (done && validated_step_ != state_.step) validate();
  if (done && state_.validation_pending) {
    vote_now();  // whose signal it was
    end = LoopEnd::kSignal;
    done = false;
  }
  if (options_.print_param_hash)
    host_.print("param_hash " + to_hex(parameter_hash(*model_)) + "\n");
  enter(state_.step, "saving the results");
  const std::string save_error = save_last();
  communicator_.together("saving of the results", [&] {
    if (communicator_.is_main()) save_results(end, save_error);
  });
  return done ? ExitCode::kOk : ExitCode::kStoppedWithCheckpoint;
}

// A trained model's weights, which are a third of a checkpoint, are tried also where that could not
// be written.
void TrainingSession::save_results(LoopEnd end, const std::string& save_error) {
  const bool done = end == LoopEnd::kFinished || end == LoopEnd::kStoppedEarly;
  if (done) save_weights();
  if (!save_error.empty()) throw checkpoint_error(save_error);
  sinks_->on_summary(summarize(end));
  sinks_->flush();
  if (done && !loss_is_finite()) {
    throw UserError(ExitCode::kTrainingFailed,
                    "the run has come to its end with a loss that is not a finite number; its "
                    "weights are of no use. "
                    "Lower optimizer.learning_rate, add lr_scheduler.warmup_steps, or set "
                    "training.max_grad_norm, "
                    "and start anew with --resume never");
  }
}

bool TrainingSession::loss_is_finite() const {
  return std::isfinite(state_.last_loss.value_or(0)) &&
         std::isfinite(state_.last_validation_loss.value_or(0));
}

void TrainingSession::save_weights() {
  std::vector<TensorEntry> weights;
  for (const NamedParameter& parameter : model_->parameters()) {
    weights.push_back({parameter.name, parameter.tensor.detach()});
  }
  write_safetensors(directory_->weights(), weights, {{"format", "pt"}});
}

std::string TrainingSession::how_to_continue() const {
  if (options_.resume == "auto") return "run the same command again to continue";
  return "run the same command without --resume to continue";
}

SummaryRecord TrainingSession::summarize(LoopEnd end) const {
  SummaryRecord summary;
  switch (end) {
    case LoopEnd::kFinished:
      summary.outcome = "finished";
      break;
    case LoopEnd::kStoppedEarly:
      summary.outcome = "stopped early: validation loss has not improved for " +
                        std::to_string(state_.validations_without_improvement) + " validations";
      break;
    case LoopEnd::kSignal:
      summary.outcome = "stopped by " + signal_name(verdict_.stop_signal) +
                        stopped_rank_text(verdict_.stop_rank) + "; " + how_to_continue();
      break;
    case LoopEnd::kMaxTime:
      summary.outcome = "stopped after training.max_time; " + how_to_continue();
      break;
  }
  summary.steps = state_.step;
  summary.tokens = state_.tokens;
  summary.seconds = state_.seconds;
  summary.tokens_per_second =
      trained_seconds_ > 0 ? static_cast<double>(trained_tokens_) / trained_seconds_ : 0;
  summary.final_loss = state_.last_loss;
  summary.final_validation_loss = state_.last_validation_loss;
  if (std::isfinite(state_.best_validation_loss))
    summary.best_validation_loss = state_.best_validation_loss;
  summary.memory_peak_bytes = device_->memory().peak;
  summary.run_dir = directory_->path().string();
  if (end == LoopEnd::kFinished || end == LoopEnd::kStoppedEarly) {
    summary.weights_path = directory_->weights().string();
  }
  return summary;
}

}  // namespace trainctl
