#include <algorithm>

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
  if (now.kernels != saved.kernels && !saved.kernels.empty()) {
    log_warning("resuming on " + now.kernels + " a run made on " + saved.kernels +
                ": results will agree to rounding, not bit for bit");
  }
}

}  // namespace

// Rank 0 says which there are; all ranks try the newest together, each verifying a part of its
// files, and go to the next older one where it is damaged for any of them.
void TrainingSession::find_checkpoint() {
  CheckpointCandidates candidates;
  communicator_.together("start: checkpoint", [&] {
    if (communicator_.is_main()) candidates = list_candidates();
  });
  choose_checkpoint(candidates);
  communicator_.together("start: loading of the checkpoint", [&] {
    if (!checkpoint_) return;
    if (candidates.asked) make_way_for(*checkpoint_);
    adopt_state();
  });
}

CheckpointCandidates TrainingSession::list_candidates() {
  const bool began = options_.restarted && !list_checkpoints(directory_->checkpoints()).empty();
  if (!is_automatic(options_.resume) && !began) {
    return candidates_at(options_.resume, ExitCode::kCheckpoint);
  }
  CheckpointCandidates own = candidates_in(directory_->checkpoints());
  if (own.folders.empty() && fs::exists(directory_->metrics())) {
    log_warning("'" + directory_->path().string() +
                "' holds an earlier run without a checkpoint: starting at step 0, "
                "its metrics are replaced");
  }
  return own;
}

// Why this rank cannot take it; empty: it is in checkpoint_.
std::string TrainingSession::try_checkpoint(const std::string& path, bool named) {
  try {
    std::error_code ignored;
    if (!communicator_.is_main() && !fs::is_directory(path, ignored)) {
      throw checkpoint_error("'" + path +
                             "', from which rank 0 resumes, is not there on the "
                             "host of rank " +
                             std::to_string(communicator_.world().rank) +
                             "; put run.output_dir on a file system that all hosts share");
    }
    checkpoint_ =
        load_checkpoint(path, {communicator_.world().rank, communicator_.world().world_size});
    if (!named) require_own_step(*checkpoint_);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

void TrainingSession::choose_checkpoint(const CheckpointCandidates& mine) {
  // A name may hold any byte but this one.
  std::string list = mine.named ? std::string("named", 6) : std::string("all", 4);
  for (const fs::path& folder : mine.folders) {
    list += communicator_.world().distributed() ? fs::absolute(folder).string() : folder.string();
    list += '\0';
  }
  list = communicator_.from_main(list, "start: checkpoint");
  std::vector<std::string> paths;
  for (size_t at = 0; at < list.size(); at = list.find('\0', at) + 1) {
    paths.emplace_back(list.c_str() + at);
  }
  const bool named = paths[0] == "named";
  paths.erase(paths.begin());
  std::string refused;
  for (const std::string& path : paths) {
    const std::vector<std::string> refusals =
        communicator_.gather(try_checkpoint(path, named), "start: verification of the checkpoint");
    const auto refusal = std::find_if(refusals.begin(), refusals.end(),
                                      [](const std::string& text) { return !text.empty(); });
    if (refusal == refusals.end()) return;
    checkpoint_.reset();
    refused = *refusal;
    if (communicator_.is_main() && !named) log_warning("checkpoint passed over: " + refused);
  }
  communicator_.together("start: checkpoint", [&] {
    if (!communicator_.is_main() || paths.empty()) return;
    if (named) throw checkpoint_error(refused);
    throw no_good_checkpoint(mine.checkpoints, paths.size());
  });
}

bool TrainingSession::is_own(const fs::path& step_dir) const {
  return fs::weakly_canonical(step_dir.parent_path()) ==
         fs::weakly_canonical(directory_->checkpoints());
}

// Two pasts must not mix in one run. A run goes back to an earlier checkpoint of its own by moving
// the later ones aside; another run's checkpoint begins only a run that has none.
void TrainingSession::make_way_for(const LoadedCheckpoint& chosen) {
  const std::string run = "run '" + directory_->path().string() + "'";
  const bool own = is_own(chosen.path);
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
  if (communicator_.is_main() && is_own(checkpoint_->path)) run_id_ = checkpoint_->manifest.run;
  if (finished()) return;
  if (now.dataset_fingerprint != state_.dataset_fingerprint) {
    refuse_other_data(where, differences);
  }
  if (communicator_.is_main()) warn_of_other_rounding(now, state_, config_);
  state_.threads = now.threads;
  state_.ranks = now.ranks;
  state_.kernels = now.kernels;
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

}  // namespace trainctl
