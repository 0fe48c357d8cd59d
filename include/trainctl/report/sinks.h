// Where records go.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/config/config.h"
#include "trainctl/report/records.h"

namespace trainctl {

using TextOutput = std::function<void(const std::string&)>;

// What a person sees. On a terminal one live line with a bar, above which validation and samples
// scroll by; in a file one plain line per record. `print` gets whole lines; `progress` the live
// line without a line end, or "" to clear it. ProgressStyle::kNone leaves only the summary.
std::unique_ptr<MetricsSink> make_console_sink(ProgressStyle style, bool is_terminal, int width,
                                               TextOutput print, TextOutput progress);

// metrics.jsonl: one strict JSON object per line, written at once; flush() makes them durable.
// Lines after `resume_step`, or torn ones, are cut off first, so that steps never go back; 0 begins
// anew. NaN and infinities are null, and named in "nonfinite".
std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& path, int64_t resume_step);

// Hands every record to each of several, in order.
class CompositeSink : public MetricsSink {
 public:
  explicit CompositeSink(std::vector<std::unique_ptr<MetricsSink>> sinks);
  void on_step(const StepRecord& record) override;
  void on_validation(const ValidationRecord& record) override;
  void on_sample(const SampleRecord& record) override;
  void on_checkpoint(const CheckpointRecord& record) override;
  void on_summary(const SummaryRecord& record) override;
  void flush() override;

 private:
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
};

}  // namespace trainctl
