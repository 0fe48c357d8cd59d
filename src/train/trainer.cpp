#include "trainctl/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>

#include "train/trainer_session.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/config/load.h"
#include "trainctl/plan/capacity.h"
#include "trainctl/report/sinks.h"

namespace trainctl {

// Everything that can be refused is refused here, before the first step; data and device come
// before the run's folder, so that a refused run leaves nothing behind.
TrainingSession::TrainingSession(const Config& config, const RunOptions& options,
                                 const RunHost& host)
    : config_(config),
      options_(options),
      host_(host),
      datasets_(open_datasets(config)),
      device_(make_device(config.backend.device, &why_not_cuda_)),
      validation_clock_(config.validation.interval),
      checkpoint_clock_(config.checkpoint.interval) {
  backend_lines_ = apply_backend(config, device_->torch_device());
  const DataExtent extent = extent_of(*datasets_.train);
  plan_ = make_plan(config, extent, WorldShape{});
  if (const std::string warning = varying_shapes(config, extent, plan_.batch);
      !warning.empty() && device_->torch_device().is_cuda()) {
    log_warning(warning);
  }
  for (const std::string& warning : plan_.warnings) log_warning(warning);
  require_memory(config, plan_.parameter_count, device_->memory().total);
  directory_ = std::make_unique<RunDirectory>(config.run.output_dir, config.run.name,
                                              options.resume == "never");
  state_.threads = at::get_num_threads();
  state_.dataset_fingerprint = datasets_.train->fingerprint();
  find_checkpoint();
}

bool TrainingSession::finished() const {
  return (plan_.total_steps > 0 && state_.step >= plan_.total_steps) ||
         (config_.training.max_tokens > 0 && state_.tokens >= config_.training.max_tokens) ||
         (config_.validation.early_stopping.patience > 0 &&
          state_.validations_without_improvement >= config_.validation.early_stopping.patience);
}

ExitCode TrainingSession::run() {
  if (finished()) {
    host_.print("run '" + directory_->path().string() +
                "' is finished: " + std::to_string(state_.step) +
                " steps done. Raise its limit to train on, or start anew with --resume never.\n");
    if (!options_.print_param_hash) return ExitCode::kOk;
  }
  if (!finished()) require_disk(directory_->path(), config_.optimizer, plan_.parameter_count);
  model_ = make_model(config_.model, config_.backend, static_cast<uint64_t>(config_.run.seed),
                      device_->torch_device());
  optimizer_ = make_optimizer(config_.optimizer, model_->parameters());
  scaler_ = std::make_unique<GradScaler>(config_.precision.grad_scaler, config_.precision.dtype,
                                         device_->torch_device());
  restore();
  if (finished()) {
    host_.print("param_hash " + to_hex(parameter_hash(*model_)) + "\n");
    return ExitCode::kOk;
  }
  loader_ = make_train_loader(datasets_.train, config_, plan_.batch, WorldShape{}, *device_);
  loader_->seek(state_.position);
  nonfinite_run_ = at::full({}, state_.nonfinite_run,
                            at::TensorOptions(device_->torch_device()).dtype(at::kFloat));

  write_file_atomic(directory_->resolved_config(), config_to_json(config_), ExitCode::kUsage);
  open_sinks();
  print_header();
  return finish(train());
}

void TrainingSession::open_sinks() {
  std::vector<std::unique_ptr<MetricsSink>> sinks;
  sinks.push_back(make_console_sink(config_.logging.progress, host_.is_terminal,
                                    host_.terminal_width, host_.print, host_.progress));
  log_ = std::make_unique<RunLog>(directory_->logs() / "run.log");
  sinks.push_back(make_console_sink(
      ProgressStyle::kLines, /*is_terminal=*/false, /*width=*/100,
      [log = log_.get()](const std::string& text) { log->write(text); },
      [](const std::string&) {}));
  sinks.push_back(make_jsonl_sink(directory_->metrics(), state_.step));
  sinks_ = std::make_unique<CompositeSink>(std::move(sinks));
}

ExitCode TrainingSession::finish(LoopEnd end) {
  const bool done = end == LoopEnd::kFinished || end == LoopEnd::kStoppedEarly;
  if (done && validated_step_ != state_.step) validate();
  if (saved_step_ != state_.step) save_last(done);
  if (done) save_weights();
  sinks_->on_summary(summarize(end));
  sinks_->flush();
  if (options_.print_param_hash)
    host_.print("param_hash " + to_hex(parameter_hash(*model_)) + "\n");
  if (done && !loss_is_finite()) {
    throw UserError(ExitCode::kTrainingFailed,
                    "the run has come to its end with a loss that is not a finite number; its "
                    "weights are of no use. "
                    "Lower optimizer.learning_rate, add lr_scheduler.warmup_steps, or set "
                    "training.max_grad_norm, "
                    "and start anew with --resume never");
  }
  return done ? ExitCode::kOk : ExitCode::kStoppedWithCheckpoint;
}

bool TrainingSession::loss_is_finite() const {
  return std::isfinite(state_.last_loss.value_or(0)) &&
         std::isfinite(state_.last_validation_loss.value_or(0));
}

// The last checkpoint must not be lost. Where it cannot be written, a trained model's weights,
// which are a third of it, are tried before the error goes up.
void TrainingSession::save_last(bool trained) {
  try {
    save(/*required=*/true);
  } catch (const UserError&) {
    if (trained) save_weights();
    throw;
  }
}

void TrainingSession::save_weights() {
  std::vector<TensorEntry> weights;
  for (const NamedParameter& parameter : model_->parameters()) {
    weights.push_back({parameter.name, parameter.tensor.detach()});
  }
  write_safetensors(directory_->weights(), weights, {{"format", "pt"}});
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
      summary.outcome = std::string("stopped by ") + ::strsignal(host_.stop_signal()) +
                        "; run the same command again to continue";
      break;
    case LoopEnd::kMaxTime:
      summary.outcome = "stopped after training.max_time; run the same command again to continue";
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

ExitCode run_training(const Config& config, const RunOptions& options, const RunHost& host) {
  for (const std::string& warning : options.config_warnings) log_warning(warning);
  return TrainingSession(config, options, host).run();
}

}  // namespace trainctl
