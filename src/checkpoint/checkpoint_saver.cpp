#include "trainctl/checkpoint/checkpoint_saver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/job_thread.h"
#include "checkpoint/part.h"
#include "checkpoint/retention.h"
#include "checkpoint/staging.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

// Waiting for these, the next save stands at the very step that checkpoint.interval says.
constexpr double kQuickSeconds = std::chrono::duration<double>(CheckpointSaver::kPatience).count();
constexpr uint64_t kQuickBytes = uint64_t{64} << 20;
// Below this the first copy makes its pages faster than another thread could.
constexpr uint64_t kWorthPopulating = uint64_t{16} << 20;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The error of a job, as text: it is to travel. A defect is told like any other failure to save.
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return *error.what() != '\0' ? error.what() : "unknown error";
  }
}

void sync_file(const fs::path& path) {
  const int fd = path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  ::fdatasync(fd);  // metrics never stop a save
  ::close(fd);
}

// Made by every rank, since another host may not see rank 0's yet.
void make_folders(const fs::path& partial) {
  std::error_code error;
  fs::create_directories(partial, error);
  if (error && !fs::is_directory(partial)) {
    throw checkpoint_error(partial.string() + ": cannot create the folder: " + error.message());
  }
}

}  // namespace

std::string draw_token() { return random_token(); }

class CheckpointSaver::Impl {
 public:
  Impl(SaverOptions options, std::string token, at::Device device, Communicator& communicator)
      : options_(std::move(options)),
        token_(std::move(token)),
        communicator_(communicator),
        alone_(!communicator.world().distributed()),
        staging_(device) {}

  ~Impl() {
    if (alone_) {
      thread_.wait();
    } else {
      thread_.cancel();
    }
  }

  void prepare(const CheckpointContent& content) {
    if (!options_.asynchronous || busy()) return;
    plan(content);
    if (plan_.bytes_of(rank()) < kWorthPopulating) return;
    if (reserve(content)) thread_.post(staging_.populate());
  }

  void begin(const CheckpointContent& content, bool wait) {
    begun_ = Clock::now();
    plan(content);
    step_ = content.step;
    const bool end_here = wait || !options_.asynchronous;
    wait_ = end_here || !reserve(content);
    write_ = {};
    write_.step = content.step;
    write_.checkpoints = options_.checkpoints;
    write_.partial = partial_folder(options_.checkpoints, step_, token_);
    write_.plan = &plan_;
    write_.run = options_.run;
    write_.state_json = content.state_json;
    write_.validation_loss = content.validation_loss;
    std::vector<TensorEntry> tensors = owned_tensors(content, plan_, rank());
    if (!wait_) tensors = staging_.copy(tensors);
    phase_ = alone_ ? Phase::kCommitting : Phase::kWriting;
    post([this, tensors = std::move(tensors)] {
      part_ = {};
      part_.error = error_of([&] {
        if (!wait_) staging_.wait();
        write_shards(tensors);
        if (alone_) commit();
      });
      worked_until_ = Clock::now();
    });
    // Without a copy the tensors must stay as they are; only this rank may be short of memory.
    if (wait_ && !end_here) thread_.wait();
    stall_ = seconds_since(begun_);
    if (end_here) finish({});
  }

  bool busy() const { return phase_ != Phase::kIdle; }
  bool settled() const { return busy() && !thread_.busy(); }
  double seconds() const { return seconds_since(begun_); }
  int64_t step() const { return step_; }
  bool ready() const {
    if (!busy() || (phase_ == Phase::kCommitting && settled())) return true;
    return plan_.bytes <= kQuickBytes && last_seconds_ < kQuickSeconds && seconds() < kQuickSeconds;
  }

  void advance() {
    if (alone_) return end(part_.error);
    const std::vector<std::string> texts =
        communicator_.gather(part_to_json(part_), "exchange of the checkpoint's parts");
    std::string error;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Part part = part_from_json(texts[i]);
      write_.files.insert(part.files.begin(), part.files.end());
      if (error.empty() && !part.error.empty()) {
        error = (i > 0 ? "rank " + std::to_string(i) + ": " : "") + part.error;
      }
    }
    part_ = {};
    if (phase_ == Phase::kCommitting || !error.empty()) return end(error);
    phase_ = Phase::kCommitting;
    if (!communicator_.is_main()) return;
    post([this] {
      part_.error = error_of([&] { commit(); });
      worked_until_ = Clock::now();
    });
  }

  bool finish(std::optional<std::chrono::milliseconds> limit) {
    if (!busy()) return true;
    const auto entered = Clock::now();
    // In short pieces: an exchange in between shows the other ranks that this one is alive, however
    // slow its disk is.
    constexpr std::chrono::seconds kPiece{5};
    bool late = false;
    while (busy() && !late) {
      auto until = Clock::now() + kPiece;
      if (limit) until = std::min<Clock::time_point>(until, entered + *limit);
      thread_.wait_until(until);
      late = limit && Clock::now() >= entered + *limit;
      if (all_settled(&late)) advance();
    }
    stall_ += seconds_since(entered);
    if (outcome_) outcome_->stall += seconds_since(entered);
    return !busy();
  }

  std::optional<SaveOutcome> take_outcome() { return std::exchange(outcome_, std::nullopt); }

 private:
  enum class Phase { kIdle, kWriting, kCommitting };

  int64_t rank() const { return communicator_.world().rank; }

  void plan(const CheckpointContent& content) {
    plan_ =
        plan_shards(tensor_sets(content), communicator_.world().world_size, options_.shard_bytes);
  }

  bool reserve(const CheckpointContent& content) {
    std::string why_not;
    if (staging_.reserve(staging_bytes(owned_tensors(content, plan_, rank())), &why_not))
      return true;
    if (!warned_of_memory_) {
      log_warning(
          "checkpoints are written while training waits: there is no memory for the copy "
          "that checkpoint.async needs (" +
          why_not + ")");
    }
    warned_of_memory_ = true;
    return false;
  }

  // A single process that waits anyway does the work itself. With several ranks the waiting is
  // finish()'s, which lets the others know that this one is alive.
  void post(std::function<void()> job) {
    if (alone_ && wait_) {
      job();
    } else {
      thread_.post(std::move(job));
    }
  }

  void write_shards(const std::vector<TensorEntry>& tensors) {
    if (options_.before_write) options_.before_write();
    make_folders(write_.partial);
    if (communicator_.is_main()) require_space(options_.checkpoints, step_, plan_.bytes);
    part_.files = write_part(write_.partial, plan_, rank(), tensors, &thread_.cancelled());
    if (!alone_) fsync_directory(write_.partial, ExitCode::kCheckpoint);
  }

  void commit() {
    if (alone_) write_.files = part_.files;
    sync_file(options_.sync_first);
    path_ = commit_checkpoint(write_);
    // What follows is no part of the save: an error in it is a warning.
    const std::string error = error_of(
        [&] { apply_retention(options_.checkpoints, step_, options_.run, options_.retention); });
    if (!error.empty()) log_warning("old checkpoints were not removed: " + error);
  }

  bool all_settled(bool* late) {
    if (alone_) return settled();
    const std::string mine = std::string(settled() ? "s" : "w") + (*late ? "l" : "-");
    const std::vector<std::string> all = communicator_.gather(mine, "saving a checkpoint");
    // Rank 0's clock counts for all.
    *late = all[0][1] == 'l';
    return std::all_of(all.begin(), all.end(), [](const auto& text) { return text[0] == 's'; });
  }

  void end(const std::string& error) {
    phase_ = Phase::kIdle;
    if (!error.empty() && communicator_.is_main()) {
      std::error_code ignored;
      fs::remove_all(write_.partial, ignored);  // the first error is the one to tell
    }
    SaveOutcome outcome;
    outcome.step = step_;
    outcome.error = error;
    outcome.path = step_folder(options_.checkpoints, step_);
    outcome.bytes = plan_.bytes;
    outcome.seconds = std::chrono::duration<double>(worked_until_ - begun_).count();
    outcome.stall = stall_;
    outcome.asynchronous = !wait_;
    last_seconds_ = outcome.seconds;
    outcome_ = outcome;
  }

  SaverOptions options_;
  std::string token_;
  Communicator& communicator_;
  bool alone_, warned_of_memory_ = false;
  StagingMemory staging_;

  // Of the save under way. The thread changes part_ and path_ while it is busy; the rest is only
  // changed while it is not.
  Phase phase_ = Phase::kIdle;
  ShardPlan plan_;
  int64_t step_ = -1;
  bool wait_ = false;
  Clock::time_point begun_ = Clock::now(), worked_until_ = begun_;
  double stall_ = 0, last_seconds_ = 0;
  CommitRequest write_;
  Part part_;
  fs::path path_;
  std::optional<SaveOutcome> outcome_;

  JobThread thread_;  // last: it ends first
};

CheckpointSaver::CheckpointSaver(SaverOptions options, const std::string& token, at::Device device,
                                 Communicator& communicator)
    : impl_(std::make_unique<Impl>(std::move(options), token, device, communicator)) {}
CheckpointSaver::~CheckpointSaver() = default;

void CheckpointSaver::prepare(const CheckpointContent& content) { impl_->prepare(content); }
bool CheckpointSaver::busy() const { return impl_->busy(); }
bool CheckpointSaver::settled() const { return impl_->settled(); }
double CheckpointSaver::seconds() const { return impl_->seconds(); }
int64_t CheckpointSaver::step() const { return impl_->step(); }
bool CheckpointSaver::ready() const { return impl_->ready(); }
void CheckpointSaver::advance() { impl_->advance(); }

void CheckpointSaver::begin(const CheckpointContent& content, bool wait) {
  impl_->begin(content, wait);
}

bool CheckpointSaver::finish(std::optional<std::chrono::milliseconds> limit) {
  return impl_->finish(limit);
}

std::optional<SaveOutcome> CheckpointSaver::take_outcome() { return impl_->take_outcome(); }

}  // namespace trainctl
