// The run config as plain structs. Defaults stand here; key, type, unit, range and documentation of
// every field stand in one table (src/config/fields.cpp), from which reading, writing, `config
// init`, `config show` and the JSON Schema are made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

enum class ModelType { kGpt, kEncoderClassifier };
enum class PositionType { kLearned, kRotary };
enum class NormOrder { kPre, kPost };
enum class Activation { kGelu, kGeluTanh, kRelu, kSwiglu };
enum class Pooling { kNone, kMean, kFirst };
enum class DataFormat { kText, kSynthetic };
enum class LossType { kAuto, kFull };
enum class OptimizerType { kAdamW, kAdam, kSgd };
enum class ScheduleType { kConstant, kLinear, kCosine, kInverseSqrt, kWarmupStableDecay };
enum class Dtype { kFp32, kBf16, kFp16 };
enum class MatmulPrecision { kHighest, kHigh, kMedium };
enum class Toggle { kAuto, kOn, kOff };  // JSON: "auto", true, false
enum class AttentionBackend { kAuto, kMath, kFlash, kEfficient, kCudnn };
enum class ParallelStrategy { kDdp };
enum class CommBackend { kAuto, kNccl, kGloo };
enum class GradientCompression { kNone, kBf16, kFp16 };
enum class SaveErrorPolicy { kContinue, kStop };
enum class ProgressStyle { kAuto, kBar, kLines, kNone };

// A number of steps, or a time ("90s", "10m", "2h"). Both zero: never.
struct Interval {
  int64_t steps = 0;
  double seconds = 0;
  bool never() const { return steps == 0 && seconds == 0; }
};

struct RunConfig {
  std::string name = "run";
  std::string output_dir = "runs";
  int64_t seed = 1;
};

struct ModelConfig {
  ModelType type = ModelType::kGpt;
  int64_t vocab_size = 257;
  int64_t d_model = 256;
  int64_t n_layers = 4;
  int64_t n_heads = 8;
  int64_t d_ff = 0;  // 0: 4 × d_model (SwiGLU: 8/3 × d_model rounded up to a multiple of 8);
                     // resolved on reading
  int64_t max_seq_len = 256;
  double dropout = 0.0;
  bool tie_embeddings = true;  // gpt only
  bool bias = true;            // gpt only
  PositionType position = PositionType::kLearned;
  double rope_theta = 10000.0;
  NormOrder norm_order =
      NormOrder::kPre;  // encoder_classifier: post (resolved on reading when not given)
  double norm_eps = 1e-5;
  Activation activation = Activation::kGelu;  // encoder_classifier: relu when not given
  double init_std = 0.02;                     // gpt only
  Pooling pooling = Pooling::kNone;           // encoder_classifier only
  int64_t n_classes = 0;                      // encoder_classifier; 0: vocab_size
};

struct DataConfig {
  DataFormat format = DataFormat::kText;
  std::vector<std::string> train;       // paths and globs
  std::vector<std::string> validation;  // empty: validation_fraction of train
  double validation_fraction = 0.1;
  int64_t seq_len = 256;
  bool shuffle = true;
  int64_t workers = 1;   // threads that prepare batches; 0: in the training thread
  int64_t prefetch = 4;  // batches ready ahead
  int64_t synthetic_sequences = 4096;
};

struct TrainingConfig {
  // At least one of the four limits; the first one reached ends the run.
  int64_t max_steps = 0;
  int64_t max_tokens = 0;
  double epochs = 0;
  double max_time = 0;  // seconds; JSON "2h" or a number
  int64_t micro_batch_size = 8;
  int64_t global_batch_size = 0;  // sequences over all ranks; 0: micro batch × accumulation × ranks
  std::optional<int64_t> gradient_accumulation_steps;  // must agree with global_batch_size
  double max_grad_norm = 1.0;                          // 0: no clipping
  double label_smoothing = 0;
  LossType loss = LossType::kAuto;
  bool overfit_one_batch = false;
  int64_t max_nonfinite_steps =
      10;  // consecutive steps without a finite gradient before the run stops
};

struct ParamGroupConfig {
  std::string params;  // glob over parameter names, e.g. "*.mlp.*"
  std::optional<double> weight_decay;
  std::optional<double> learning_rate;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double learning_rate = 3e-4;
  double weight_decay = 0.1;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.9;                                              // sgd only
  bool nesterov = false;                                              // sgd only
  std::vector<std::string> no_decay = {"norm", "bias", "embedding"};  // kinds without weight decay
  std::vector<ParamGroupConfig> groups;  // first match wins, over no_decay
};

struct LrSchedulerConfig {
  ScheduleType type = ScheduleType::kCosine;
  int64_t warmup_steps = 0;
  double warmup_ratio = 0;  // of all steps; not together with warmup_steps
  double min_learning_rate = 0;
  int64_t decay_steps = 0;   // warmup_stable_decay only
  double decay_ratio = 0.2;  // warmup_stable_decay, when decay_steps is 0
};

struct GradScalerConfig {
  Toggle enabled = Toggle::kAuto;  // auto: on for fp16
  bool dynamic = true;             // false: the scale stays at init_scale
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};

struct PrecisionConfig {
  Dtype dtype = Dtype::kFp32;
  MatmulPrecision float32_matmul_precision = MatmulPrecision::kHighest;
  GradScalerConfig grad_scaler;
};

struct BackendConfig {
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  bool deterministic = false;
  bool cudnn_benchmark = false;
  bool cudnn_deterministic = false;
  bool cudnn_allow_tf32 = true;
  AttentionBackend attention = AttentionBackend::kAuto;
  int64_t threads = 0;  // 0: the CPUs this process may use
};

struct ParallelConfig {
  ParallelStrategy strategy = ParallelStrategy::kDdp;
  CommBackend backend = CommBackend::kAuto;
  double bucket_mb = 25;
  GradientCompression compression = GradientCompression::kNone;
  bool find_unused_parameters = false;
  int64_t check_parameters_every = 0;  // steps; 0: only at the start
  double timeout = 600;                // seconds
  bool self_test = false;
};

struct EarlyStoppingConfig {
  int64_t patience = 0;  // validations without improvement; 0: off
  double min_delta = 0;
};

struct ValidationConfig {
  Interval interval;                 // never: only at the end
  int64_t max_batches = 0;           // 0: all
  std::vector<std::string> prompts;  // continued after each validation, and at the end
  int64_t sample_tokens = 200;
  double temperature = 0.8;
  int64_t top_k = 0;
  EarlyStoppingConfig early_stopping;
};

struct CheckpointConfig {
  Interval interval = {0, 600};  // never: only at the end and when stopped
  bool async = true;
  int64_t keep_latest = 3;
  int64_t keep_every = 0;  // steps; 0: off
  int64_t keep_best = 0;   // by validation loss; 0: off
  SaveErrorPolicy on_error = SaveErrorPolicy::kContinue;
  double shard_mb = 2048;
};

struct LoggingConfig {
  int64_t interval = 10;  // steps
  ProgressStyle progress = ProgressStyle::kAuto;
};

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  TrainingConfig training;
  OptimizerConfig optimizer;
  LrSchedulerConfig lr_scheduler;
  PrecisionConfig precision;
  BackendConfig backend;
  ParallelConfig parallel;
  ValidationConfig validation;
  CheckpointConfig checkpoint;
  LoggingConfig logging;
};

}  // namespace trainctl
