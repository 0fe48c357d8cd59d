#include "trainctl/report/curve.h"
#include "trainctl/report/format.h"
#include "trainctl/report/sinks.h"

namespace trainctl {
namespace {

class ConsoleSink : public MetricsSink {
 public:
  ConsoleSink(ProgressStyle style, bool is_terminal, int width, TextOutput print,
              TextOutput progress)
      : style_(style),
        width_(width > 0 ? width : 80),
        unicode_(locale_is_utf8()),
        print_(std::move(print)),
        progress_(std::move(progress)) {
    if (style_ == ProgressStyle::kAuto) {
      style_ = is_terminal ? ProgressStyle::kBar : ProgressStyle::kLines;
    }
  }

  ~ConsoleSink() override { clear_bar(); }

  void on_step(const StepRecord& record) override {
    if (style_ == ProgressStyle::kBar) {
      // One column is left free: a full line would wrap on some terminals and leave its rest
      // behind.
      bar_ = format_progress_bar(record, width_ - 1, unicode_);
      progress_(bar_);
    } else if (style_ == ProgressStyle::kLines) {
      print_(format_step_line(record) + "\n");
    }
  }

  void on_validation(const ValidationRecord& record) override {
    print_above_bar(format_validation_line(record) + "\n");
  }

  void on_sample(const SampleRecord& record) override { print_above_bar(format_sample(record)); }

  void on_checkpoint(const CheckpointRecord&) override {}  // saving is not worth a line

  void on_summary(const SummaryRecord& record) override {
    clear_bar();
    if (style_ != ProgressStyle::kNone) {
      print_curve(record.run_dir);
    }
    print_(format_summary(record));
  }

  void flush() override {}

 private:
  void print_above_bar(const std::string& text) {
    if (style_ == ProgressStyle::kNone) {
      return;
    }
    if (!bar_.empty()) {
      progress_("");
    }
    print_(text);
    if (!bar_.empty()) {
      progress_(bar_);
    }
  }

  void clear_bar() {
    if (!bar_.empty()) {
      progress_("");
      bar_.clear();
    }
  }

  // From the file rather than from what this process saw: the curve goes back over all resumes.
  void print_curve(const std::string& run_dir) {
    constexpr int kWidest = 100;
    const fs::path metrics = fs::path(run_dir) / "metrics.jsonl";
    std::error_code ignored;
    if (run_dir.empty() || !fs::exists(metrics, ignored)) {
      return;
    }
    try {
      const CurveStyle curve{std::min(width_, kWidest), 12, unicode_};
      print_(draw_loss_curve(read_loss_history(metrics), curve));
    } catch (const UserError&) {
      // A curve that cannot be drawn is no reason to end a finished run otherwise.
    }
  }

  ProgressStyle style_;
  int width_;
  bool unicode_;
  TextOutput print_, progress_;
  std::string bar_;  // what the live line shows; empty when there is none
};

}  // namespace

std::unique_ptr<MetricsSink> make_console_sink(ProgressStyle style, bool is_terminal, int width,
                                               TextOutput print, TextOutput progress) {
  return std::make_unique<ConsoleSink>(style, is_terminal, width, std::move(print),
                                       std::move(progress));
}

}  // namespace trainctl
