// Batches from a deterministic sample order. The order is a function of (seed, epoch, index) over
// the whole data set, independent of rank count and worker threads; a position in it can be saved
// (docs/data.md).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/config/config.h"
#include "trainctl/plan/plan.h"
#include "trainctl/runtime/device.h"

namespace trainctl {

struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;  // samples of this epoch's order already consumed, over all ranks
  bool operator==(const DataPosition&) const = default;
};

struct MicroBatch {
  at::Tensor tokens;   // [batch, seq] int64, on the device
  at::Tensor targets;  // [batch, seq] or [batch] int64; kIgnoreIndex marks invalid
};

// All that one rank needs for one optimizer step.
struct StepBatch {
  // Equally many on every rank. At an epoch's end fewer, or with fewer rows, and a rank that got no
  // sample of its own holds one row whose targets are all ignored. Never empty.
  std::vector<MicroBatch> micro_batches;
  int64_t valid_targets = 0;    // of the global batch, over all ranks and micro-batches
  DataPosition position_after;  // where the next step begins; at an epoch's end {epoch + 1, 0}
};

// A source of windows with random access: sample i is tokens and shifted targets.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;                        // samples per epoch, at least one
  virtual int64_t sample_length(int64_t index) const = 0;  // only the last one may be shorter
  virtual int64_t valid_targets(int64_t index) const = 0;
  // Writes sample_length(index) tokens, and as many targets (or one, when targets are per
  // sequence). Called from several threads at once.
  virtual void read(int64_t index, int64_t* tokens, int64_t* targets) const = 0;
  virtual bool targets_per_sequence() const { return false; }
  virtual std::string fingerprint() const = 0;  // changes when the data do; saved in checkpoints
};

struct DatasetPair {
  std::shared_ptr<const Dataset> train, validation;  // validation may be null
};

DatasetPair open_datasets(const Config& config);  // throws data_error
DataExtent extent_of(const Dataset& dataset);

// Sample number `index` of `epoch`: a permutation of [0, size) when shuffling, in which the one
// shorter window of a data set comes last (it makes a step of its own, weighted by what it holds).
class SampleOrder {
 public:
  SampleOrder(const Dataset& dataset, uint64_t seed, bool shuffle);
  int64_t at(int64_t epoch, int64_t index) const;  // computed, not stored: O(1) memory
  int64_t size() const { return size_; }
  int64_t full_size() const { return full_size_; }  // without the shorter window

 private:
  int64_t full_size_ = 0, size_ = 0;
  uint64_t seed_ = 0;
  bool shuffle_ = false;
};

// Batches of the training order, prepared by worker threads ahead of use.
class DataLoader {
 public:
  virtual ~DataLoader() = default;
  virtual StepBatch next() = 0;  // endless: epochs follow each other
  // Throws checkpoint_error for a position that is not in the data.
  virtual void seek(const DataPosition& position) = 0;
};

// With training.overfit_one_batch every step is the first one of epoch 0, wherever it is told to
// seek.
std::unique_ptr<DataLoader> make_train_loader(std::shared_ptr<const Dataset> dataset,
                                              const Config& config, const BatchPlan& batch,
                                              const WorldShape& world, Device& device);

// Every sample of a data set once, in order, for evaluation. Ends with an empty optional.
class EvalLoader {
 public:
  virtual ~EvalLoader() = default;
  virtual std::optional<MicroBatch> next() = 0;
};

// Batches of `batch_size` sequences are dealt to the ranks in turn, and each rank gets equally many
// (a row of ignored targets where there are none left). `max_batches` counts over all ranks, so
// that the samples it leaves are the same at any rank count; 0 takes all.
std::unique_ptr<EvalLoader> make_eval_loader(std::shared_ptr<const Dataset> dataset,
                                             int64_t batch_size, int64_t max_batches,
                                             const WorldShape& world, Device& device);

}  // namespace trainctl
