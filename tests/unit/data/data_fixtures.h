// A device and a data set whose every number tells where it came from.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "trainctl/data/data.h"
#include "trainctl/model/model.h"

namespace trainctl {

class FakeDevice final : public Device {
 public:
  at::Device torch_device() const override { return at::kCPU; }
  std::vector<std::pair<std::string, std::string>> report() const override { return {}; }
  MemoryStats memory() const override { return {}; }
  std::optional<uint64_t> free_memory() const override { return std::nullopt; }
  Abilities abilities() const override { return {}; }
  void reset_peak_memory() override {}
  void synchronize() override {}
  at::Tensor pin(at::Tensor host) override {
    const std::lock_guard lock(mutex_);
    pinned_.insert_or_assign(host.data_ptr(), host);
    return host;
  }
  at::Tensor to_device(const at::Tensor& host) override {
    const std::lock_guard lock(mutex_);
    if (!pinned_.contains(host.data_ptr())) throw std::logic_error("a copy from unpinned memory");
    if (std::this_thread::get_id() != owner_) throw std::logic_error("a copy on a worker's thread");
    pinned_.erase(host.data_ptr());
    return host;
  }
  void seed(uint64_t) override {}

 private:
  std::mutex mutex_;
  std::map<void*, at::Tensor> pinned_;
  std::thread::id owner_ = std::this_thread::get_id();
};

// Sample s has tokens 1000·s, 1000·s + 1, … and each target is its token + 1; the first s % 3
// targets are ignored. With labels per sequence the label is s.
class NumberedDataset final : public Dataset {
 public:
  NumberedDataset(int64_t size, int64_t seq_len, int64_t last_length = 0, bool per_sequence = false)
      : size_(size),
        seq_len_(seq_len),
        last_(last_length == 0 ? seq_len : last_length),
        per_sequence_(per_sequence) {}

  int64_t size() const override { return size_; }
  int64_t sample_length(int64_t index) const override {
    return index == size_ - 1 ? last_ : seq_len_;
  }
  int64_t valid_targets(int64_t index) const override {
    return per_sequence_ ? 1 : std::max<int64_t>(sample_length(index) - index % 3, 0);
  }
  void read(int64_t index, int64_t* tokens, int64_t* targets) const override {
    if (index == failing_sample) throw std::runtime_error("cannot read sample");
    for (int64_t t = 0; t < sample_length(index); ++t) {
      tokens[t] = 1000 * index + t;
      if (!per_sequence_) targets[t] = t < index % 3 ? kIgnoreIndex : tokens[t] + 1;
    }
    if (per_sequence_) targets[0] = index;
  }
  bool targets_per_sequence() const override { return per_sequence_; }
  std::string fingerprint() const override { return "numbered"; }

  int64_t failing_sample = -1;

 private:
  int64_t size_, seq_len_, last_;
  bool per_sequence_;
};

// Samples of a micro-batch, -1 for a row of ignored targets.
inline std::vector<int64_t> samples_of(const MicroBatch& batch) {
  std::vector<int64_t> samples;
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const bool ignored = batch.targets[row].eq(kIgnoreIndex).all().item<bool>();
    samples.push_back(ignored ? -1 : batch.tokens[row][0].item<int64_t>() / 1000);
  }
  return samples;
}

inline std::vector<std::vector<int64_t>> samples_of(const StepBatch& step) {
  std::vector<std::vector<int64_t>> out;
  for (const MicroBatch& batch : step.micro_batches) out.push_back(samples_of(batch));
  return out;
}

struct LoaderSetting {
  int64_t micro_batch_size = 2, accumulation = 1;
  WorldShape world = {};
  bool shuffle = true;
  int64_t workers = 0, prefetch = 3;
  bool overfit_one_batch = false;
};

inline std::unique_ptr<DataLoader> loader_for(std::shared_ptr<const Dataset> dataset,
                                              Device& device, const LoaderSetting& setting) {
  Config config;
  config.run.seed = 7;
  config.data.shuffle = setting.shuffle;
  config.data.workers = setting.workers;
  config.data.prefetch = setting.prefetch;
  config.training.overfit_one_batch = setting.overfit_one_batch;
  BatchPlan batch;
  batch.micro_batch_size = setting.micro_batch_size;
  batch.gradient_accumulation_steps = setting.accumulation;
  batch.global_batch_size =
      setting.micro_batch_size * setting.accumulation * setting.world.world_size;
  return make_train_loader(std::move(dataset), config, batch, setting.world, device);
}

}  // namespace trainctl
