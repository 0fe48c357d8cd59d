#include "cli/dry_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/plan/plan.h"
#include "trainctl/text/byte_corpus.h"

namespace trainctl {
namespace {

struct Extents {
  DataExtent train;
  int64_t validation_sequences = 0;
  int64_t files = 0;
};

DataExtent windows_of(int64_t tokens, int64_t seq_len) {
  const int64_t targets = tokens - 1;
  return {(targets + seq_len - 1) / seq_len, targets, targets % seq_len};
}

// As open_text_datasets (src/data/open_text.cpp) splits it; the engine is not loaded here.
Extents text_extents(const DataConfig& data) {
  const auto train_files = resolve_text_files(data.train, "data.train");
  const ByteCorpus corpus = ByteCorpus::load(train_files, "data.train");
  const int64_t tokens = corpus.size();
  Extents extents;
  extents.files = corpus.counts().files;
  extents.train = windows_of(tokens, data.seq_len);
  if (tokens <= data.seq_len) {
    throw data_error("data.train: the text has " + std::to_string(tokens) +
                     " tokens, fewer than one window of data.seq_len " +
                     std::to_string(data.seq_len) +
                     " and its next token; lower seq_len or add text");
  }
  if (!data.validation.empty()) {
    const auto files = resolve_text_files(data.validation, "data.validation");
    const ByteCorpus held_out = ByteCorpus::load(files, "data.validation");
    extents.validation_sequences = windows_of(held_out.size(), data.seq_len).sequences_per_epoch;
  } else if (data.validation_fraction > 0) {
    const int64_t windows = extents.train.sequences_per_epoch;
    if (windows < 2) {
      throw data_error(
          "data.train: one window of text leaves nothing for data.validation_fraction; lower "
          "data.seq_len, add text, or set validation_fraction to 0");
    }
    const auto share = std::llround(static_cast<double>(windows) * data.validation_fraction);
    extents.validation_sequences = std::clamp<int64_t>(share, 1, windows - 1);
    extents.train =
        windows_of((windows - extents.validation_sequences) * data.seq_len + 1, data.seq_len);
  }
  return extents;
}

Extents synthetic_extents(const Config& config) {
  const bool per_sequence = config.model.pooling != Pooling::kNone;
  const int64_t sequences = config.data.synthetic_sequences;
  Extents extents;
  extents.train.sequences_per_epoch = sequences;
  if (config.data.validation_fraction > 0) {
    const double share = static_cast<double>(sequences) * config.data.validation_fraction;
    extents.validation_sequences = std::max<int64_t>(std::llround(share), 1);
  }
  extents.train.tokens_per_epoch = per_sequence ? sequences : sequences * config.data.seq_len;
  return extents;
}

std::string count(int64_t number) { return human_count(static_cast<double>(number)); }

std::string line(const char* label, const std::string& value) {
  char text[64];
  std::snprintf(text, sizeof text, "  %-12s ", label);
  return text + value + "\n";
}

std::string length_text(const Config& config, const RunPlan& plan) {
  std::string text = plan.total_steps > 0 ? std::to_string(plan.total_steps) + " steps" : "";
  if (plan.total_steps > 0 && plan.steps_per_epoch > 0) {
    char epochs[48];
    std::snprintf(epochs, sizeof epochs, " (%.2f epochs of %lld steps)",
                  static_cast<double>(plan.total_steps) / static_cast<double>(plan.steps_per_epoch),
                  static_cast<long long>(plan.steps_per_epoch));
    text += epochs;
  }
  if (config.training.max_time > 0) {
    text += (text.empty() ? "" : ", or ") + human_duration(config.training.max_time);
  }
  return text;
}

}  // namespace

int dry_run(const LoadedConfig& loaded, const ProcessWorld& world) {
  const Config& config = loaded.config;
  const bool is_text = config.data.format == DataFormat::kText;
  const Extents extents = is_text ? text_extents(config.data) : synthetic_extents(config);
  const RunPlan plan = make_plan(config, extents.train, WorldShape{world.world_size, world.rank});
  if (world.rank != 0) return 0;  // one of them says it for all
  for (const std::string& warning : loaded.warnings) log_warning(warning);
  for (const std::string& warning : plan.warnings) log_warning(warning);
  const BatchPlan& batch = plan.batch;
  const std::string data =
      is_text ? std::to_string(extents.files) + " text files" : std::string("synthetic");
  terminal().print(
      "dry run of " + config.run.name + ": config and data are fine\n" +
      line("parameters",
           count(plan.parameter_count) + " (" + std::to_string(plan.parameter_count) + ")") +
      line("data", data + ", " + std::to_string(extents.train.sequences_per_epoch) +
                       " training windows of " + std::to_string(config.data.seq_len) + " tokens, " +
                       std::to_string(extents.validation_sequences) + " for validation") +
      line("step", std::to_string(batch.global_batch_size) +
                       " sequences = " + std::to_string(batch.micro_batch_size) + " × " +
                       std::to_string(batch.gradient_accumulation_steps) + " micro-batches, " +
                       std::to_string(batch.tokens_per_step) + " tokens") +
      line("length", length_text(config, plan)) +
      line("warm-up", std::to_string(plan.warmup_steps) + " steps") + line("output", plan.run_dir));
  return 0;
}

}  // namespace trainctl
