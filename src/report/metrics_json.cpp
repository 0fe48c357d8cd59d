#include <cmath>
#include <nlohmann/json.hpp>

#include "trainctl/report/format.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

using OrderedJson = nlohmann::ordered_json;

// JSON has no NaN: such a value is null, and its key stands in "nonfinite".
void put_number(OrderedJson& line, const char* key, double value) {
  if (std::isfinite(value)) {
    line[key] = value;
    return;
  }
  line[key] = nullptr;
  line["nonfinite"].push_back(key);
}

}  // namespace

std::string step_to_json(const StepRecord& record) {
  OrderedJson line;
  line["step"] = record.step;
  put_number(line, "loss", record.loss);
  put_number(line, "learning_rate", record.learning_rate);
  put_number(line, "grad_norm", record.grad_norm);
  line["tokens"] = record.tokens;
  put_number(line, "tokens_per_second", record.tokens_per_second);
  put_number(line, "time", record.time);
  put_number(line, "epoch", record.epoch);
  line["memory_bytes"] = record.memory_bytes;
  if (record.memory_reserved_bytes > 0)
    line["memory_reserved_bytes"] = record.memory_reserved_bytes;
  line["memory_peak_bytes"] = record.memory_peak_bytes;
  if (record.loss_scale) {
    put_number(line, "loss_scale", *record.loss_scale);
  }
  if (record.skipped) {
    line["skipped"] = true;
  }
  if (record.slowest_rank) {
    line["slowest_rank"] = *record.slowest_rank;
    put_number(line, "slowest_rank_ratio", record.slowest_rank_ratio);
  }
  return line.dump();
}

std::string validation_to_json(const ValidationRecord& record) {
  OrderedJson line;
  line["step"] = record.step;
  put_number(line, "validation_loss", record.validation_loss);
  line["validation_tokens"] = record.tokens;
  put_number(line, "validation_seconds", record.seconds);
  return line.dump();
}

std::string sample_to_json(const SampleRecord& record) {
  OrderedJson line;
  line["step"] = record.step;
  // A model of bytes may well write what is not UTF-8.
  line["prompt"] = replace_invalid_utf8(record.prompt);
  line["sample"] = replace_invalid_utf8(record.continuation);
  return line.dump();
}

std::string checkpoint_to_json(const CheckpointRecord& record) {
  OrderedJson line;
  line["step"] = record.step;
  line["checkpoint_step"] = record.saved_step;
  line["checkpoint_bytes"] = record.bytes;
  put_number(line, "checkpoint_seconds", record.seconds);
  put_number(line, "checkpoint_stall_seconds", record.stall);
  line["checkpoint_async"] = record.asynchronous;
  return line.dump();
}

}  // namespace trainctl
