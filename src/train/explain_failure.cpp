// What a library's error means in this run. CUDA is asked nothing but how much memory is free:
// after an error from which it does not recover, that call fails like any other and is left out.
#include "parallel/failure.h"
#include "runtime/allocator.h"
#include "train/trainer_session.h"
#include "trainctl/base/library_error.h"
#include "trainctl/plan/out_of_memory.h"
#include "trainctl/runtime/explained.h"

namespace trainctl {
namespace {

FailureKind kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return failure_kind(e);
  }
}

bool is_environment(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& e) {
    return e.code() == ExitCode::kEnvironment;
  } catch (const std::exception&) {
    return false;
  }
}

bool is_user_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::exception_ptr TrainingSession::explain(const std::exception_ptr& error) const {
  if (is_user_error(error) || !device_) return error;
  const std::optional<uint64_t> free = device_->free_memory();
  if (const auto figures = parse_out_of_memory(error_text(error))) {
    const ErrorEvidence evidence = gather_error_evidence();  // before anything is given back
    release_cached_cpu_memory();  // or there may be none left to say it with
    return std::make_exception_ptr(
        UserError(ExitCode::kTrainingFailed, out_of_memory_report(*figures, evidence, free)));
  }
  const std::exception_ptr known =
      explained(error, device_->torch_device().is_cuda() ? free : std::nullopt);
  // An operation of several ranks that fails for no reason on this machine echoes another rank's
  // end, which the communicator knows more about.
  return kind_of(error) != FailureKind::kOther && !is_environment(known) ? error : known;
}

std::string TrainingSession::out_of_memory_report(const OutOfMemoryFigures& figures,
                                                  const ErrorEvidence& evidence,
                                                  const std::optional<uint64_t>& free) const {
  using Stage = OutOfMemoryMoment::Stage;
  OutOfMemoryMoment moment;
  moment.figures = figures;
  moment.total = device_->memory().total;
  moment.free = free;
  moment.ranks = communicator_.world().world_size;
  const bool on_cpu = device_->torch_device().is_cpu();
  moment.sharing_processes = on_cpu ? communicator_.world().local_world_size : 1;
  moment.logits_in_parts = on_cpu && config_.backend.attention == AttentionBackend::kAuto;
  moment.evidence = evidence;
  moment.where = step_at_ > 0 ? "step " + std::to_string(step_at_) + ", " : "";
  if (!in_step_) {
    moment.stage = sinks_ ? Stage::kEvaluating : Stage::kBuilding;
    moment.where += doing_;
    return out_of_memory_text(config_, plan_, moment);
  }
  const TrainStep::Progress at = train_step_->progress();
  const std::string micro_batch = " of micro-batch " + std::to_string(at.micro_batch + 1) + " of " +
                                  std::to_string(at.micro_batches);
  switch (at.phase) {
    case TrainStep::Phase::kForward:
      moment.stage = Stage::kForward;
      moment.where += "forward pass" + micro_batch;
      break;
    case TrainStep::Phase::kBackward:
      moment.stage = Stage::kBackward;
      moment.where += "backward pass" + micro_batch;
      break;
    case TrainStep::Phase::kUpdate:
      moment.stage = Stage::kUpdate;
      moment.where += "the optimizer's update";
      break;
  }
  return out_of_memory_text(config_, plan_, moment);
}

void TrainingSession::explaining(const std::function<void()>& work) const {
  try {
    work();
  } catch (const std::exception&) {
    std::rethrow_exception(explain(std::current_exception()));
  }
}

void TrainingSession::enter(int64_t step, const char* doing) {
  step_at_ = step;
  doing_ = doing;
  communicator_.enter(step, doing);
}

}  // namespace trainctl
