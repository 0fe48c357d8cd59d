#include "trainctl/plan/out_of_memory.h"

#include <algorithm>
#include <vector>

#include "trainctl/base/strings.h"
#include "trainctl/plan/capacity.h"

namespace trainctl {
namespace {

using Stage = OutOfMemoryMoment::Stage;

constexpr uint64_t kFp32 = 4;
constexpr uint64_t kLogitsAtOnce = (uint64_t{1} << 24) * kFp32;  // as src/model/ops/head_loss.cpp
constexpr uint64_t kWorthSaying = uint64_t{1} << 20;

struct Consumer {
  std::string name;
  uint64_t bytes;
  std::string detail;
};

uint64_t unsigned_of(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }

// One row of logits per token, or per sequence.
int64_t logit_rows(const Config& config) {
  const int64_t sequences = config.training.micro_batch_size;
  return config.model.pooling == Pooling::kNone ? sequences * config.data.seq_len : sequences;
}

int64_t classes(const ModelConfig& model) {
  return model.n_classes > 0 ? model.n_classes : model.vocab_size;
}

Consumer logits(const Config& config, const OutOfMemoryMoment& moment) {
  const uint64_t one = unsigned_of(logit_rows(config)) * unsigned_of(classes(config.model)) * kFp32;
  const std::string shape = std::to_string(logit_rows(config)) + " tokens × " +
                            std::to_string(classes(config.model)) + " classes, fp32";
  if (moment.logits_in_parts)
    return {"logits", std::min(one, kLogitsAtOnce), "a part at a time of " + shape};
  // The loss's backward pass has their logarithms of probabilities and their gradient at once.
  return moment.stage == Stage::kBackward
             ? Consumer{"logits", 2 * one, shape + ", and their gradient"}
             : Consumer{"logits", one, shape};
}

std::vector<Consumer> consumers(const Config& config, const RunPlan& plan,
                                const OutOfMemoryMoment& moment) {
  const uint64_t weights = unsigned_of(plan.parameter_count) * kFp32;
  const uint64_t state = training_state_bytes(config.optimizer, plan.parameter_count) - 2 * weights;
  const std::string count = human_count(static_cast<double>(plan.parameter_count)) + ", fp32";
  const bool training = moment.stage == Stage::kForward || moment.stage == Stage::kBackward ||
                        moment.stage == Stage::kUpdate;
  std::vector<Consumer> list = {{"parameters", weights, count}};
  if (state > 0) list.push_back({"optimizer state", state, ""});
  if (moment.stage == Stage::kBackward || moment.stage == Stage::kUpdate)
    list.push_back({"gradients", weights, ""});
  if (training && moment.ranks > 1)
    list.push_back({"gradient buckets", weights, "for the sums over ranks"});
  if (moment.stage == Stage::kForward || moment.stage == Stage::kBackward ||
      moment.stage == Stage::kEvaluating)
    list.push_back(logits(config, moment));
  uint64_t known = 0;
  for (const Consumer& consumer : list) known += consumer.bytes;
  if (const auto tensors = moment.figures.tensors;
      tensors && *tensors > known + kWorthSaying && moment.stage != Stage::kBuilding)
    list.push_back({"activations", *tensors - known, "and what else is in tensors"});
  std::stable_sort(list.begin(), list.end(),
                   [](const Consumer& a, const Consumer& b) { return a.bytes > b.bytes; });
  return list;
}

std::string consumer_lines(const std::vector<Consumer>& list) {
  std::string text;
  for (const Consumer& consumer : list) {
    std::string name = consumer.name;
    name.resize(18, ' ');
    std::string bytes = human_bytes(consumer.bytes);
    bytes.insert(0, bytes.size() < 9 ? 9 - bytes.size() : 0, ' ');
    text +=
        "\n    " + name + bytes + (consumer.detail.empty() ? "" : "  (" + consumer.detail + ")");
  }
  return text;
}

std::string headline(const OutOfMemoryMoment& moment) {
  const OutOfMemoryFigures& figures = moment.figures;
  std::string text =
      std::string(figures.gpu ? "CUDA out of memory" : "out of memory") + " in " + moment.where;
  if (figures.asked) text += ": " + human_bytes(*figures.asked) + " more were asked for";
  const auto free = figures.free ? figures.free : moment.free;
  const uint64_t total = figures.total.value_or(moment.total);
  if (free) text += (figures.asked ? ", " : ": ") + human_bytes(*free) + " are free";
  if (free && total > 0) text += " of " + human_bytes(total);
  const ErrorEvidence& evidence = moment.evidence;
  if (!figures.gpu && evidence.address_space_limit)
    text += "; the limit on address space (ulimit -v) is " +
            human_bytes(*evidence.address_space_limit) + ", of which " +
            human_bytes(evidence.address_space_used) + " are mapped";
  return text;
}

std::string others_line(const OutOfMemoryFigures& figures) {
  if (figures.others.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [pid, bytes] : figures.others)
    parts.push_back("process " + std::to_string(pid) + ": " + human_bytes(bytes));
  return "\n  others on this GPU: " + join(parts, ", ");
}

// What was known before the start, see require_memory.
std::string estimate_line(const Config& config, const RunPlan& plan,
                          const OutOfMemoryMoment& moment) {
  const uint64_t needed = training_state_bytes(config.optimizer, plan.parameter_count) *
                          unsigned_of(moment.sharing_processes);
  std::string text = "\n  the estimate at the start: " + human_bytes(needed) +
                     " for weights, gradients and optimizer state" +
                     (moment.sharing_processes > 1
                          ? " of " + std::to_string(moment.sharing_processes) + " processes"
                          : "");
  if (moment.total > 0) text += ", of " + human_bytes(moment.total);
  return text + "; activations and logits come on top";
}

std::string batch_cure(const RunPlan& plan, const OutOfMemoryMoment& moment) {
  const BatchPlan& batch = plan.batch;
  const int64_t smaller = smaller_micro_batch(batch, moment.ranks);
  if (smaller == 0) return "";
  const int64_t steps = batch.global_batch_size / (smaller * moment.ranks);
  return "training.micro_batch_size " + std::to_string(smaller) + " instead of " +
         std::to_string(batch.micro_batch_size) + " (gradient_accumulation_steps " +
         std::to_string(steps) + " keeps global_batch_size at " +
         std::to_string(batch.global_batch_size) + ")";
}

std::vector<std::string> cures(const Config& config, const RunPlan& plan,
                               const OutOfMemoryMoment& moment) {
  std::vector<std::string> list;
  const OutOfMemoryFigures& figures = moment.figures;
  if (!figures.others.empty())
    list.emplace_back("end the other processes on this GPU (nvidia-smi)");
  if (!figures.gpu && moment.evidence.address_space_limit)
    list.emplace_back("raise the limit (ulimit -v unlimited)");
  const uint64_t free = figures.free ? *figures.free : moment.free.value_or(0);
  if (figures.unallocated && figures.asked && *figures.unallocated + free > *figures.asked)
    list.push_back(human_bytes(*figures.unallocated) +
                   " are reserved but in no tensor: set "
                   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  if (moment.stage == Stage::kBuilding || moment.stage == Stage::kUpdate) {
    list.emplace_back(
        "lower model.vocab_size, model.d_model or model.n_layers: the model's own "
        "state does not fit");
    if (moment.stage == Stage::kBuilding) return list;
  }
  if (const std::string batch = batch_cure(plan, moment); !batch.empty()) list.push_back(batch);
  if (config.data.seq_len > 1)
    list.push_back("data.seq_len " + std::to_string(config.data.seq_len / 2) + " instead of " +
                   std::to_string(config.data.seq_len));
  if (config.precision.dtype == Dtype::kFp32)
    list.emplace_back("precision.dtype \"bf16\", which halves the activations");
  if (moment.sharing_processes > 1) list.emplace_back("fewer ranks on this host");
  return list;
}

}  // namespace

int64_t smaller_micro_batch(const BatchPlan& batch, int64_t ranks) {
  for (int64_t size = batch.micro_batch_size / 2; size >= 1; --size) {
    if (batch.global_batch_size % (size * ranks) == 0) return size;
  }
  return 0;
}

std::string out_of_memory_text(const Config& config, const RunPlan& plan,
                               const OutOfMemoryMoment& moment) {
  const std::vector<std::string> list = cures(config, plan, moment);
  return headline(moment) + others_line(moment.figures) +
         "\n  what takes the memory, by the config:" +
         consumer_lines(consumers(config, plan, moment)) + estimate_line(config, plan, moment) +
         "\n  cure: " + join(list, "; or ") + "\n  more: trainctl doctor --explain " +
         (moment.figures.gpu ? "gpu-out-of-memory" : "cpu-out-of-memory");
}

}  // namespace trainctl
