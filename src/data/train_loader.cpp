#include <system_error>

#include "data/batch_rows.h"
#include "data/prefetch_queue.h"
#include "trainctl/base/error.h"
#include "trainctl/data/data.h"

namespace trainctl {
namespace {

// What one step takes from the order: samples [begin.index, begin.index + count) of begin.epoch.
struct StepSamples {
  DataPosition begin;
  int64_t count = 0;
  DataPosition after;
};

struct HostStep {
  HostRows rows;
  int64_t valid_targets = 0;
  DataPosition position_after;
};

class TrainLoader final : public DataLoader {
 public:
  TrainLoader(std::shared_ptr<const Dataset> dataset, const Config& config, const BatchPlan& batch,
              const WorldShape& world, Device& device)
      : dataset_(std::move(dataset)),
        order_(*dataset_, static_cast<uint64_t>(config.run.seed), config.data.shuffle),
        batch_(batch),
        world_(world),
        device_(device),
        workers_(config.data.workers),
        prefetch_(config.data.prefetch) {}

  StepBatch next() override {
    HostStep step = workers_ == 0 ? read_step(next_step()) : queue().next();
    StepBatch batch;
    batch.micro_batches = to_micro_batches(step.rows, batch_.micro_batch_size, device_);
    batch.valid_targets = step.valid_targets;
    batch.position_after = step.position_after;
    return batch;
  }

  void seek(const DataPosition& position) override {
    if (position.epoch < 0 || position.index < 0 || position.index > order_.size()) {
      throw checkpoint_error("the saved data position (epoch " + std::to_string(position.epoch) +
                             ", sample " + std::to_string(position.index) +
                             ") is not in the data, which have " + std::to_string(order_.size()) +
                             " samples; give the data the run began with, or start anew with "
                             "--resume never");
    }
    queue_.reset();  // joins the workers, so that nothing reads position_ meanwhile
    position_ = position;
  }

 private:
  using Queue = PrefetchQueue<StepSamples, HostStep>;

  // Started by the first use and not before: a new loader is often told to seek at once.
  Queue& queue() {
    if (!queue_) {
      try {
        queue_ = std::make_unique<Queue>(
            workers_, prefetch_, [this] { return next_step(); },
            [this](const StepSamples& samples) { return read_step(samples); });
      } catch (const std::system_error& error) {
        throw environment_error("cannot start " + std::to_string(workers_) +
                                " data workers: " + error.what() +
                                "; lower data.workers or raise the process limit (ulimit -u)");
      }
    }
    return *queue_;
  }

  // The full windows of an epoch in steps of the global batch, the last with what is left; then the
  // shorter window by itself.
  StepSamples next_step() {
    if (position_.index == order_.size()) position_ = {position_.epoch + 1, 0};
    StepSamples step;
    step.begin = position_;
    const int64_t full_left = order_.full_size() - position_.index;
    step.count = full_left > 0 ? std::min(batch_.global_batch_size, full_left) : 1;
    position_.index += step.count;
    if (position_.index == order_.size()) position_ = {position_.epoch + 1, 0};
    step.after = position_;
    return step;
  }

  // Any thread.
  HostStep read_step(const StepSamples& step) const {
    const RankShare share = share_of_step(step.count, batch_.micro_batch_size, world_);
    HostStep host;
    host.position_after = step.after;
    std::vector<int64_t> samples;
    int64_t length = 0;
    for (int64_t i = 0; i < step.count; ++i) {
      // Every rank looks up the whole step, so that all know its valid targets without asking.
      const int64_t sample = order_.at(step.begin.epoch, step.begin.index + i);
      host.valid_targets += dataset_->valid_targets(sample);
      length = dataset_->sample_length(sample);
      if (i >= share.first && i < share.first + share.rows) samples.push_back(sample);
    }
    host.rows = read_rows(*dataset_, samples, share.padding_row, length, device_);
    return host;
  }

  std::shared_ptr<const Dataset> dataset_;
  SampleOrder order_;
  BatchPlan batch_;
  WorldShape world_;
  Device& device_;
  int64_t workers_, prefetch_;
  DataPosition position_;         // of the next step to draw; under the queue's lock while it runs
  std::unique_ptr<Queue> queue_;  // last: its threads use the rest
};

// training.overfit_one_batch: the first step for ever, to see whether a model can learn at all.
class OneBatchLoader final : public DataLoader {
 public:
  explicit OneBatchLoader(StepBatch batch) : batch_(std::move(batch)) {}
  StepBatch next() override { return batch_; }
  void seek(const DataPosition&) override {}

 private:
  StepBatch batch_;
};

}  // namespace

std::unique_ptr<DataLoader> make_train_loader(std::shared_ptr<const Dataset> dataset,
                                              const Config& config, const BatchPlan& batch,
                                              const WorldShape& world, Device& device) {
  auto loader = std::make_unique<TrainLoader>(std::move(dataset), config, batch, world, device);
  if (config.training.overfit_one_batch) return std::make_unique<OneBatchLoader>(loader->next());
  return loader;
}

}  // namespace trainctl
