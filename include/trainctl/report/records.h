// What a run says about itself, and the seam through which it says it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

struct StepRecord {
  int64_t step = 0;  // counted from 1; monotone across resumes
  int64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;  // mean over the valid target tokens of the global batch
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // seen so far
  double tokens_per_second = 0;
  double time = 0;  // seconds of training so far, over all resumes
  std::optional<double> loss_scale;
  bool skipped = false;                // non-finite gradients: no update
  uint64_t memory_bytes = 0;           // device memory in use; resident set on CPU
  uint64_t memory_reserved_bytes = 0;  // by the device's caching allocator; 0 on CPU
  uint64_t memory_peak_bytes = 0;
  double eta_seconds = -1;  // < 0: unknown
  // Of several ranks: the one that worked longest for its share of the steps since the last record,
  // without waiting for others, and how many times the ranks' mean that took.
  std::optional<int64_t> slowest_rank;
  double slowest_rank_ratio = 1;
};

struct ValidationRecord {
  int64_t step = 0;
  double validation_loss = 0;
  int64_t tokens = 0;
  double seconds = 0;
};

struct SampleRecord {
  int64_t step = 0;
  std::string prompt;
  std::string continuation;
};

struct CheckpointRecord {
  int64_t step = 0;        // when it was known to be there
  int64_t saved_step = 0;  // whose state it holds
  uint64_t bytes = 0;
  double seconds = 0;  // from its beginning until it was there
  double stall = 0;    // how long training stood still for it
  bool asynchronous = false;
};

struct SummaryRecord {
  std::string outcome;  // "finished", "stopped by SIGINT", "stopped early", …
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;
  double tokens_per_second = 0;
  std::optional<double> final_loss, final_validation_loss, best_validation_loss;
  uint64_t memory_peak_bytes = 0;
  std::string weights_path;
  std::string run_dir;
};

// A sink that fails warns once and goes quiet; logging never stops training.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void on_step(const StepRecord&) = 0;
  virtual void on_validation(const ValidationRecord&) = 0;
  virtual void on_sample(const SampleRecord&) = 0;
  virtual void on_checkpoint(const CheckpointRecord&) = 0;
  virtual void on_summary(const SummaryRecord&) = 0;
  virtual void flush() = 0;
};

}  // namespace trainctl
