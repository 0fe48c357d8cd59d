// The parts of one training run and the loop over them. trainer.cpp builds it; the loop is in
// training_loop.cpp, resume in trainer_checkpoint.cpp, saving in trainer_saving.cpp, the header in
// run_header.cpp.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/interval_clock.h"
#include "train/open_checkpoint.h"
#include "train/run_log.h"
#include "train/stragglers.h"
#include "trainctl/base/library_error.h"
#include "trainctl/base/out_of_memory.h"
#include "trainctl/checkpoint/checkpoint.h"
#include "trainctl/checkpoint/checkpoint_saver.h"
#include "trainctl/config/config.h"
#include "trainctl/data/data.h"
#include "trainctl/model/model.h"
#include "trainctl/parallel/communicator.h"
#include "trainctl/parallel/gradient_sync.h"
#include "trainctl/plan/plan.h"
#include "trainctl/report/header.h"
#include "trainctl/report/records.h"
#include "trainctl/runtime/device.h"
#include "trainctl/train/grad_scaler.h"
#include "trainctl/train/host.h"
#include "trainctl/train/optimizer.h"
#include "trainctl/train/run_directory.h"
#include "trainctl/train/train_step.h"
#include "trainctl/train/trainer.h"
#include "trainctl/train/training_state.h"

namespace trainctl {

// Why the loop ended.
enum class LoopEnd { kFinished, kStoppedEarly, kSignal, kMaxTime };

class TrainingSession {
 public:
  TrainingSession(const Config& config, const RunOptions& options, const RunHost& host,
                  Communicator& communicator);
  ExitCode run();

 private:
  // trainer.cpp
  void open_data_and_device();
  void compare_data();
  void open_directory();
  bool finished() const;
  bool stopped_early() const;
  ExitCode train_to_the_end();
  void build();
  void open_sinks();

  // trainer_outcome.cpp
  ExitCode say_finished();
  std::string finished_text() const;
  ExitCode finish(LoopEnd end);
  void save_results(LoopEnd end, const std::string& save_error);
  bool loss_is_finite() const;
  void save_weights();
  std::string how_to_continue() const;
  SummaryRecord summarize(LoopEnd end) const;

  // training_loop.cpp
  LoopEnd train();
  std::optional<LoopEnd> reason_to_stop();
  StepVote vote();
  void vote_now();
  void after_step(const StepResult& result, double learning_rate, const StepBatch& batch);
  double mean_loss(const StepResult& result);  // over all ranks
  void close_window(double loss);
  void log_step(const StepResult& result, double learning_rate);
  void stop_if_diverged(const StepResult& result, double learning_rate);
  std::string divergence_text(double learning_rate) const;
  bool validate();  // true: the loss is lower than any before
  void write_samples();

  // trainer_checkpoint.cpp
  void find_checkpoint();  // fills checkpoint_ and state_ from what --resume asks for
  CheckpointCandidates list_candidates();
  std::string try_checkpoint(const std::string& path, bool named);
  void choose_checkpoint(const CheckpointCandidates& mine);
  bool is_own(const fs::path& step_dir) const;  // of this run; on rank 0
  void make_way_for(const LoadedCheckpoint& chosen);
  void adopt_state();
  void restore();  // puts the tensors of checkpoint_ in place and lets go of it

  // trainer_saving.cpp
  void make_saver();
  void prepare_saver();
  CheckpointContent content();
  bool wants_save();
  void follow_save();
  // Begins a save; one under way is waited for only shortly, and then this one stays due, unless it
  // has to be of this very step.
  void save(bool at_this_step);
  void note_save();
  std::string record_save();
  void finish_save();
  std::string save_last();

  // run_header.cpp
  void print_header() const;
  void warn_of_slow_paths() const;

  // explain_failure.cpp
  void enter(int64_t step, const char* doing);  // where this rank is, a literal
  // A library's error with cause and cure, or as it is.
  std::exception_ptr explain(const std::exception_ptr& error) const;
  void explaining(const std::function<void()>& work) const;
  std::string out_of_memory_report(const OutOfMemoryFigures& figures, const ErrorEvidence& evidence,
                                   const std::optional<uint64_t>& free) const;

  const Config& config_;
  const RunOptions& options_;
  const RunHost& host_;
  Communicator& communicator_;

  DatasetPair datasets_;
  std::string why_not_cuda_;  // set by device_'s construction
  std::unique_ptr<Device> device_;
  HeaderLines backend_lines_;
  std::string varying_shapes_;  // of batches; empty: they do not vary
  RunPlan plan_;
  std::unique_ptr<RunDirectory> directory_;  // rank 0 alone has it
  std::optional<LoadedCheckpoint> checkpoint_;
  TrainingState state_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradScaler> scaler_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<TrainStep> train_step_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<MetricsSink>
      sinks_;  // after log_, to which one of them writes; none but on rank 0

  IntervalClock validation_clock_, checkpoint_clock_;
  at::Tensor nonfinite_run_;  // device scalar: consecutive skipped steps
  std::chrono::steady_clock::time_point process_start_ = std::chrono::steady_clock::now();
  double window_seconds_ = 0;  // training time since the last logged step
  int64_t window_tokens_ = 0;
  double trained_seconds_ = 0;  // in this process, for the summary's speed
  int64_t trained_tokens_ = 0;
  std::chrono::steady_clock::time_point step_begin_;
  std::optional<std::string> self_test_;
  int64_t step_at_ = 0;  // 0: before the first
  const char* doing_ = "building the model and the optimizer";
  bool in_step_ = false;     // train_step_ knows more
  StepVerdict verdict_;      // of the last vote
  int64_t voting_step_ = 0;  // 0: between steps
  double own_seconds_ = 0;   // this rank's work in the last step
  Stragglers stragglers_;
  int64_t saved_step_ = -1, validated_step_ = -1;

  std::string
      run_id_;  // on rank 0: of the run that is continued; made anew with the saver if empty
  bool save_due_ = false, saved_with_loss_ = false, saver_prepared_ = false;
  bool warned_of_slow_save_ = false;
  std::unique_ptr<CheckpointSaver> saver_;  // last: what it saves outlives it
};

}  // namespace trainctl
