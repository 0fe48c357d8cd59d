#include "cli/dry_run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/plan/capacity.h"
#include "trainctl/plan/plan.h"
#include "trainctl/text/byte_corpus.h"
#include "trainctl/text/text_split.h"

namespace trainctl {
namespace {

struct Extents {
  DataExtent train;
  int64_t validation_sequences = 0;
  int64_t files = 0;
};

DataExtent extent_of(int64_t tokens, int64_t seq_len) {
  const int64_t targets = tokens - 1;
  return {window_count(tokens, seq_len), targets, targets % seq_len};
}

Extents text_extents(const Config& config) {
  const DataConfig& data = config.data;
  require_text_model(config.model);
  const ByteCorpus corpus =
      ByteCorpus::load(resolve_text_files(data.train, "data.train"), "data.train");
  const int64_t tokens = corpus.size();
  const TextSplit split = split_text(tokens, data);
  Extents extents;
  extents.files = corpus.counts().files;
  extents.train = extent_of(split.train_tokens, data.seq_len);
  if (split.held_out_begin) {
    extents.validation_sequences = window_count(tokens - *split.held_out_begin, data.seq_len);
  } else if (!data.validation.empty()) {
    const auto files = resolve_text_files(data.validation, "data.validation");
    const ByteCorpus held_out = ByteCorpus::load(files, "data.validation");
    extents.validation_sequences = window_count(held_out.size(), data.seq_len);
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

// The run would make its folder here: the nearest folder that exists must let it, and must have
// room for a checkpoint.
void require_output_folder(const Config& config, const RunPlan& plan) {
  fs::path folder = fs::absolute(plan.run_dir);
  std::error_code error;
  while (!fs::exists(folder, error) && folder != folder.parent_path())
    folder = folder.parent_path();
  if (!fs::is_directory(folder, error)) {
    throw usage_error("the run's folder '" + plan.run_dir + "' cannot be made: '" +
                      folder.string() + "' is a file; choose another run.output_dir or run.name");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw usage_error("the run's folder '" + plan.run_dir + "' cannot be written: '" +
                      folder.string() + "': " + std::strerror(errno) +
                      "; set run.output_dir to a folder that can be written");
  }
  require_disk(folder, config.optimizer, plan.parameter_count);
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

std::string checkpoint_text(const Config& config, int64_t parameters, int64_t ranks) {
  std::string text = human_bytes(checkpoint_bytes(config.optimizer, parameters));
  const uint64_t copy = checkpoint_copy_bytes(config, parameters, ranks);
  if (copy > 0) text += ", written from a copy of " + human_bytes(copy) + " in each rank's memory";
  return text;
}

}  // namespace

int dry_run(const LoadedConfig& loaded, const ProcessWorld& world) {
  const Config& config = loaded.config;
  const bool is_text = config.data.format == DataFormat::kText;
  const Extents extents = is_text ? text_extents(config) : synthetic_extents(config);
  const RunPlan plan = make_plan(config, extents.train, WorldShape{world.world_size, world.rank});
  if (config.backend.device == "cpu")
    require_memory(config, plan.parameter_count, memory_limit(), world.local_world_size);
  require_output_folder(config, plan);
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
                       std::to_string(batch.gradient_accumulation_steps) + " micro-batches" +
                       (world.world_size > 1 ? " × " + std::to_string(world.world_size) + " ranks, "
                                             : ", ") +
                       std::to_string(batch.tokens_per_step) + " tokens") +
      line("length", length_text(config, plan)) +
      line("warm-up", std::to_string(plan.warmup_steps) + " steps") +
      line("checkpoint", checkpoint_text(config, plan.parameter_count, world.world_size)) +
      line("output", plan.run_dir));
  return 0;
}

}  // namespace trainctl
