#include "trainctl/report/sinks.h"

namespace trainctl {

CompositeSink::CompositeSink(std::vector<std::unique_ptr<MetricsSink>> sinks)
    : sinks_(std::move(sinks)) {}

void CompositeSink::on_step(const StepRecord& record) {
  for (const auto& sink : sinks_) sink->on_step(record);
}
void CompositeSink::on_validation(const ValidationRecord& record) {
  for (const auto& sink : sinks_) sink->on_validation(record);
}
void CompositeSink::on_sample(const SampleRecord& record) {
  for (const auto& sink : sinks_) sink->on_sample(record);
}
void CompositeSink::on_checkpoint(const CheckpointRecord& record) {
  for (const auto& sink : sinks_) sink->on_checkpoint(record);
}
void CompositeSink::on_summary(const SummaryRecord& record) {
  for (const auto& sink : sinks_) sink->on_summary(record);
}
void CompositeSink::flush() {
  for (const auto& sink : sinks_) sink->flush();
}

}  // namespace trainctl
