#include <algorithm>
#include <cmath>
#include <cstdio>

#include "train/trainer_session.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/parallel/parameter_check.h"
#include "trainctl/plan/lr_schedule.h"
#include "trainctl/train/evaluate.h"
#include "trainctl/train/generate.h"

namespace trainctl {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string short_number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

// Epochs may lie between; in the last window of one, the position goes on to the next.
int64_t samples_between(const DataPosition& from, const DataPosition& to, int64_t per_epoch) {
  return (to.epoch - from.epoch) * per_epoch + to.index - from.index;
}

}  // namespace

LoopEnd TrainingSession::train() {
  train_step_ = std::make_unique<TrainStep>(config_, communicator_.world().rank, *model_, *sync_,
                                            *optimizer_, *scaler_, *device_);
  if (state_.validation_pending && validate() && config_.checkpoint.keep_best > 0) save(true);
  vote_now();
  std::optional<StepResult> last;
  for (;;) {
    if (const std::optional<LoopEnd> end = reason_to_stop()) {
      // Between two logged steps: the summary speaks of the last one.
      if (last && window_tokens_ > 0) close_window(mean_loss(*last));
      return *end;
    }

    step_begin_ = std::chrono::steady_clock::now();
    voting_step_ = state_.step + 1;
    enter(voting_step_, "reading data");
    const StepBatch batch = loader_->next();
    enter(voting_step_, "forward and backward passes");
    const double learning_rate =
        learning_rate_at(config_.lr_scheduler, config_.optimizer.learning_rate, state_.step,
                         plan_.total_steps, plan_.warmup_steps);
    double own_seconds = 0;
    in_step_ = true;
    const StepResult result = train_step_->run(batch, state_.step, learning_rate, [&] {
      own_seconds = seconds_since(step_begin_);
      communicator_.begin_vote([this] { return vote(); });
    });
    in_step_ = false;
    own_seconds_ = own_seconds + sync_->own_seconds();
    // Before anything waits for the device: a rank that does not come is found out on the host,
    // where waiting has a limit.
    verdict_ = communicator_.finish_vote();
    stragglers_.add(verdict_.seconds);
    after_step(result, learning_rate, batch);
    last = result;

    follow_save();
    const bool best = verdict_.validate && validate() && config_.checkpoint.keep_best > 0;
    if (checkpoint_clock_.nears(state_.step)) prepare_saver();
    if (verdict_.save || best) save(/*at_this_step=*/best);
    const int64_t every = config_.parallel.check_parameters_every;
    if (every > 0 && state_.step % every == 0) {
      check_parameters_equal(*model_, communicator_, state_.step);
    }
    if (verdict_.validate || verdict_.save || best) vote_now();  // they may have taken long
  }
}

StepVote TrainingSession::vote() {
  StepVote vote;
  vote.stop_signal = host_.stop_signal();
  const double limit = config_.training.max_time;
  vote.out_of_time = limit > 0 && seconds_since(process_start_) >= limit;
  vote.validate = voting_step_ > 0 && validation_clock_.due(voting_step_);
  vote.save_settled = saver_->settled();
  vote.save = voting_step_ > 0 && wants_save();
  vote.seconds = own_seconds_;
  return vote;
}

void TrainingSession::vote_now() {
  voting_step_ = 0;
  communicator_.begin_vote([this] { return vote(); });
  verdict_ = communicator_.finish_vote();
  follow_save();
}

std::optional<LoopEnd> TrainingSession::reason_to_stop() {
  if (finished()) {
    const bool early =
        config_.validation.early_stopping.patience > 0 &&
        state_.validations_without_improvement >= config_.validation.early_stopping.patience;
    return early ? LoopEnd::kStoppedEarly : LoopEnd::kFinished;
  }
  if (verdict_.stop_signal != 0) return LoopEnd::kSignal;
  if (verdict_.out_of_time) return LoopEnd::kMaxTime;
  return std::nullopt;
}

void TrainingSession::after_step(const StepResult& result, double learning_rate,
                                 const StepBatch& batch) {
  ++state_.step;
  state_.tokens += batch.valid_targets;
  state_.samples += samples_between(state_.position, batch.position_after, datasets_.train->size());
  state_.position = batch.position_after;
  // A counter on the device: 0 after a good step, one more after a skipped one.
  nonfinite_run_ = (nonfinite_run_ + result.found_inf) * result.found_inf;

  const bool log_now =
      state_.step % config_.logging.interval == 0 || state_.step == 1 || finished();
  // On a GPU only logging steps wait for the device, and the time of the steps between falls to
  // them.
  if (log_now || device_->torch_device().is_cpu()) stop_if_diverged(result, learning_rate);
  const double seconds = seconds_since(step_begin_);
  state_.seconds += seconds;
  window_seconds_ += seconds;
  window_tokens_ += batch.valid_targets;
  if (log_now) log_step(result, learning_rate);
}

void TrainingSession::log_step(const StepResult& result, double learning_rate) {
  StepRecord record;
  record.step = state_.step;
  record.total_steps = plan_.total_steps;
  const auto sequences = static_cast<double>(datasets_.train->size());
  record.epoch = static_cast<double>(state_.position.epoch) +
                 static_cast<double>(state_.position.index) / sequences;
  record.loss = mean_loss(result);
  record.learning_rate = learning_rate;
  record.grad_norm = result.grad_norm.item<double>();
  record.skipped = result.found_inf.item<double>() != 0;
  record.tokens = state_.tokens;
  record.tokens_per_second =
      window_seconds_ > 0 ? static_cast<double>(window_tokens_) / window_seconds_ : 0;
  record.time = state_.seconds;
  if (scaler_->enabled()) record.loss_scale = scaler_->current_scale();
  const MemoryStats memory = device_->memory();
  record.memory_bytes = memory.allocated;
  record.memory_reserved_bytes = memory.reserved;
  record.memory_peak_bytes = memory.peak;
  if (plan_.total_steps > 0 && trained_seconds_ + window_seconds_ > 0 && state_.step > 0) {
    const double per_token = (trained_seconds_ + window_seconds_) /
                             static_cast<double>(trained_tokens_ + window_tokens_);
    const double per_step =
        static_cast<double>(state_.tokens) / static_cast<double>(state_.step) * per_token;
    record.eta_seconds = per_step * static_cast<double>(plan_.total_steps - state_.step);
  }
  stragglers_.report(&record);
  close_window(record.loss);
  sinks_->on_step(record);
}

double TrainingSession::mean_loss(const StepResult& result) {
  const at::Tensor loss = result.loss.clone();
  communicator_.sum(loss, "sum of the loss");
  return loss.item<double>();
}

void TrainingSession::close_window(double loss) {
  state_.last_loss = loss;
  trained_seconds_ += window_seconds_;
  trained_tokens_ += window_tokens_;
  window_seconds_ = 0;
  window_tokens_ = 0;
}

void TrainingSession::stop_if_diverged(const StepResult& result, double learning_rate) {
  const auto run = nonfinite_run_.item<double>();
  state_.nonfinite_run = static_cast<int64_t>(run);
  if (state_.nonfinite_run < config_.training.max_nonfinite_steps) return;
  log_step(result, learning_rate);
  sinks_->flush();
  finish_save();  // of a good step: it is what the run can be taken up from
  // All ranks see the same sums of gradients; one of them explains.
  communicator_.together("end of a diverged run", [&] {
    if (!communicator_.is_main()) return;
    throw UserError(ExitCode::kTrainingFailed, divergence_text(learning_rate));
  });
}

std::string TrainingSession::divergence_text(double learning_rate) const {
  std::vector<std::string> broken;
  size_t broken_count = 0;
  for (const NamedParameter& parameter : model_->parameters()) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (!grad.defined() || at::isfinite(grad).all().item<bool>()) continue;
    if (++broken_count <= 3) broken.push_back(parameter.name);
  }
  std::string message =
      "training diverged: gradients were not finite in " + std::to_string(state_.nonfinite_run) +
      " steps in a row, up to step " + std::to_string(state_.step) + " (loss " +
      short_number(state_.last_loss.value_or(0)) + ", learning rate " + short_number(learning_rate);
  if (scaler_->enabled()) message += ", loss scale " + short_number(scaler_->current_scale());
  message += "). Not finite: " + std::to_string(broken_count) + " of " +
             std::to_string(model_->parameters().size()) + " gradients";
  if (!broken.empty()) message += ", first " + join(broken, ", ");
  message += ". No update was made from them; ";
  message += list_checkpoints(directory_->checkpoints()).empty()
                 ? "no checkpoint had been saved yet. "
                 : "checkpoints up to the last good step are kept in '" +
                       directory_->checkpoints().string() + "'. ";
  message +=
      scaler_->enabled()
          ? "Lower optimizer.learning_rate, or use precision.dtype bf16, which needs no loss scale."
          : "Lower optimizer.learning_rate, add lr_scheduler.warmup_steps, or set "
            "training.max_grad_norm.";
  return message;
}

bool TrainingSession::validate() {
  validated_step_ = state_.step;
  bool lowest = false;
  if (datasets_.validation != nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    enter(state_.step, "validation");
    // A stop request does not wait for a long validation: it is made up for after the resume.
    const Evaluation evaluation =
        evaluate(*model_, datasets_.validation, config_, *device_, communicator_,
                 [this] { return host_.stop_signal() != 0; });
    if (!evaluation.complete) {
      validated_step_ = -1;
      state_.validation_pending = true;
      if (communicator_.is_main())
        log_info("validation of step " + std::to_string(state_.step) +
                 " cut short by the request to stop; a resumed run begins with it");
      return false;
    }
    if (state_.validation_pending) saved_step_ = -1;  // what is saved of this step lacks it
    state_.validation_pending = false;
    ValidationRecord record;
    record.step = state_.step;
    record.validation_loss = evaluation.loss;
    record.tokens = evaluation.tokens;
    record.seconds = seconds_since(begin);
    state_.last_validation_loss = evaluation.loss;
    lowest = evaluation.loss < state_.lowest_validation_loss;
    if (lowest) state_.lowest_validation_loss = evaluation.loss;
    if (evaluation.loss <
        state_.best_validation_loss - config_.validation.early_stopping.min_delta) {
      state_.best_validation_loss = evaluation.loss;
      state_.validations_without_improvement = 0;
    } else {
      ++state_.validations_without_improvement;
    }
    sinks_->on_validation(record);
  }
  enter(state_.step, "writing samples");
  if (communicator_.is_main()) write_samples();
  return lowest;
}

void TrainingSession::write_samples() {
  GenerateOptions generate;
  generate.max_new_tokens = config_.validation.sample_tokens;
  generate.temperature = config_.validation.temperature;
  generate.top_k = config_.validation.top_k;
  generate.interrupted = [this] { return host_.stop_signal() != 0; };
  uint64_t number = 0;
  for (const std::string& prompt : config_.validation.prompts) {
    generate.seed = derive_seed(static_cast<uint64_t>(config_.run.seed), kSampleStream,
                                static_cast<uint64_t>(state_.step), number++);
    try {
      const std::string text = generate_text(*model_, config_, *device_, prompt, generate);
      if (generate.interrupted()) return;
      sinks_->on_sample({state_.step, prompt, text});
    } catch (const UserError& error) {  // a sample is for looking at: it never ends training
      log_warning(std::string("no sample: ") + error.what());
      return;
    }
  }
}

}  // namespace trainctl
