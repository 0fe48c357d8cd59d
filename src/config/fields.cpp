// The sections of a config, and the fields of the small ones.
#include "config/field.h"

namespace trainctl {
namespace {

bool validates(const Config& c) { return !c.validation.interval.never(); }

Table make_run_table() {
  Table t;
  t.doc = "Name and place of the run.";
  add_field<&RunConfig::name>(t, "name", "Name; the run's folder is output_dir/name.")
      .rule(StringRule::kName)
      .aka({"run_name", "experiment"})
      .starter("\"my-run\"");
  add_field<&RunConfig::output_dir>(t, "output_dir",
                                    "Folder of all runs. ${CONFIG_DIR}, environment variables and "
                                    "~ are expanded.")
      .rule(StringRule::kPath)
      .aka({"out_dir", "save_dir", "work_dir"})
      .starter("\"runs\"");
  add_field<&RunConfig::seed>(t, "seed", "Seed of everything random.")
      .at_least(0)
      .aka({"random_seed", "manual_seed"})
      .starter("1");
  return t;
}

Table make_backend_table() {
  Table t;
  t.doc = "Device and numerical libraries.";
  add_field<&BackendConfig::device>(t, "device",
                                    "\"auto\" (a GPU where there is one), \"cpu\", \"cuda\" or "
                                    "\"cuda:N\".")
      .rule(StringRule::kDevice)
      .aka({"accelerator", "gpu"})
      .starter("\"auto\"");
  add_field<&BackendConfig::deterministic>(
      t, "deterministic",
      "Only algorithms that give the same bits again; overrides cudnn_benchmark.");
  add_field<&BackendConfig::cudnn_benchmark>(t, "cudnn_benchmark",
                                             "cuDNN tries its algorithms and keeps the fastest.");
  add_field<&BackendConfig::cudnn_deterministic>(t, "cudnn_deterministic",
                                                 "cuDNN uses repeatable algorithms only.");
  add_field<&BackendConfig::cudnn_allow_tf32>(t, "cudnn_allow_tf32", "cuDNN may use TF32.");
  add_field<&BackendConfig::attention>(t, "attention", "Implementation of attention.")
      .aka({"attn_implementation", "attention_backend"});
  add_field<&BackendConfig::threads>(t, "threads", "Threads of a CPU run.")
      .range(0, 4096)
      .derived("0: the CPUs this process may use")
      .aka({"num_threads", "cpu_threads"});
  return t;
}

Table make_parallel_table() {
  Table t;
  t.doc = "Training on several devices.";
  add_field<&ParallelConfig::strategy>(t, "strategy", "How ranks share the work.");
  add_field<&ParallelConfig::backend>(t, "backend", "Library that carries messages between ranks.");
  add_field<&ParallelConfig::bucket_mb>(t, "bucket_mb",
                                        "Gradients are summed in buckets of this size.")
      .unit("MiB")
      .above(0)
      .at_most(65536)
      .aka({"bucket_cap_mb"});
  add_field<&ParallelConfig::compression>(t, "compression",
                                          "Format in which gradients travel between ranks.")
      .aka({"gradient_compression", "comm_hook"});
  add_field<&ParallelConfig::find_unused_parameters>(
      t, "find_unused_parameters",
      "Look in every step for parameters that the loss does not reach, and take their gradients as "
      "zero; without it they end the run, by name.");
  add_field<&ParallelConfig::check_parameters_every>(
      t, "check_parameters_every",
      "Steps between checks that all ranks hold the same parameters; 0: only at the start.")
      .unit("steps")
      .range(0, 1e9)
      .aka({"check_parameters_interval"});
  add_field<&ParallelConfig::timeout>(t, "timeout",
                                      "How long a rank waits for the others before it reports a "
                                      "hang: longer than the longest checkpoint and the slowest "
                                      "start.")
      .time()
      .range(1, 604800)
      .aka({"timeout_seconds", "dist_timeout", "ddp_timeout"});
  add_field<&ParallelConfig::self_test>(
      t, "self_test", "Sum buckets for two seconds at the start and show the bandwidth.");
  return t;
}

Table make_checkpoint_table() {
  Table t;
  t.doc = "Saving, to continue later.";
  add_field<&CheckpointConfig::interval>(t, "interval",
                                         "How often; 0: only at the end and when stopped.")
      .aka({"save_interval", "save_steps", "every"})
      .starter("500");
  add_field<&CheckpointConfig::keep_latest>(t, "keep_latest",
                                            "How many of this run's checkpoints are kept.")
      .range(1, 1e6)
      .aka({"save_total_limit", "keep", "max_to_keep"})
      .starter("3");
  add_field<&CheckpointConfig::keep_every>(
      t, "keep_every", "Checkpoints of steps that this divides are kept for good; 0: none.")
      .unit("steps")
      .range(0, 1e15)
      .aka({"keep_period", "save_every_n_steps_permanently"});
  add_field<&CheckpointConfig::keep_best>(
      t, "keep_best",
      "How many with the lowest validation loss are kept besides; a validation that improves on "
      "the best one is then followed by a save at once. 0: none.")
      .range(0, 1e6)
      .only_when({validates, "validation.interval is not 0", "validation.interval"}, Misfit::kWarn)
      .aka({"save_top_k", "save_best", "load_best_model_at_end"});
  add_field<&CheckpointConfig::async>(
      t, "async",
      "Training goes on while a copy of its state is written, which takes memory for that copy; "
      "false: it waits.")
      .aka({"async_save", "async_mode", "enable_async"});
  add_field<&CheckpointConfig::on_error>(
      t, "on_error", "What a failed save does to the run. A failed last save always ends with 5.");
  add_field<&CheckpointConfig::shard_mb>(
      t, "shard_mb", "Largest safetensors file; a single larger tensor has one of its own.")
      .unit("MiB")
      .above(0)
      .at_most(1048576)
      .aka({"max_shard_size", "shard_size"});
  return t;
}

Table make_logging_table() {
  Table t;
  t.doc = "What is said while training.";
  add_field<&LoggingConfig::interval>(t, "interval", "Steps between records in metrics.jsonl.")
      .unit("steps")
      .range(1, 1e9)
      .aka({"log_interval", "logging_steps", "every"})
      .starter("10");
  add_field<&LoggingConfig::progress>(t, "progress", "How progress is shown.");
  return t;
}

const Table& run_table() {
  static const Table table = make_run_table();
  return table;
}
const Table& backend_table() {
  static const Table table = make_backend_table();
  return table;
}
const Table& parallel_table() {
  static const Table table = make_parallel_table();
  return table;
}
const Table& checkpoint_table() {
  static const Table table = make_checkpoint_table();
  return table;
}
const Table& logging_table() {
  static const Table table = make_logging_table();
  return table;
}

Table make_config_table() {
  Table t;
  t.doc = "A trainctl run.";
  add_section<&Config::run>(t, "run", run_table);
  add_section<&Config::model>(t, "model", model_table);
  add_section<&Config::data>(t, "data", data_table);
  add_section<&Config::training>(t, "training", training_table);
  add_section<&Config::optimizer>(t, "optimizer", optimizer_table);
  add_section<&Config::lr_scheduler>(t, "lr_scheduler", lr_scheduler_table)
      .aka({"scheduler", "schedule", "lr_schedule"});
  add_section<&Config::precision>(t, "precision", precision_table);
  add_section<&Config::backend>(t, "backend", backend_table);
  add_section<&Config::parallel>(t, "parallel", parallel_table).aka({"distributed"});
  add_section<&Config::validation>(t, "validation", validation_table).aka({"eval", "evaluation"});
  add_section<&Config::checkpoint>(t, "checkpoint", checkpoint_table).aka({"checkpointing"});
  add_section<&Config::logging>(t, "logging", logging_table).aka({"log"});
  return t;
}

}  // namespace

const Field* Table::find(std::string_view key) const {
  for (const Field& field : fields) {
    if (key == field.key) return &field;
  }
  return nullptr;
}

const Table& config_table() {
  static const Table table = make_config_table();
  return table;
}

}  // namespace trainctl
