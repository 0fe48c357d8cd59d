#include "trainctl/plan/slow_paths.h"

#include <algorithm>

namespace trainctl {
namespace {

// Below these, what a warning speaks of costs nothing worth saying.
constexpr int64_t kLargeModel = 1'000'000;  // parameters
constexpr int64_t kWideModel = 512;         // where products rule the step
constexpr int64_t kManyClasses = 1024;
constexpr int64_t kManySequences = 256;

struct Case {
  const Config& config;
  const RunPlan& plan;
  const SlowPathFacts& facts;

  bool fp32() const { return config.precision.dtype == Dtype::kFp32; }
  bool tensor_cores() const {
    const bool tf32 = facts.tf32 && fp32() &&
                      config.precision.float32_matmul_precision != MatmulPrecision::kHighest;
    return facts.cuda && (!fp32() || tf32);
  }
  int64_t classes() const {
    return config.model.n_classes > 0 ? config.model.n_classes : config.model.vocab_size;
  }
};

int64_t next_multiple(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

// "" where there is nothing to warn of.
std::string debug_build(const Case& c) {
  if (c.facts.optimized_build) return "";
  return "this trainctl was built without optimisation; build it with cmake --preset release";
}

std::string tf32_off(const Case& c) {
  const bool off = c.config.precision.float32_matmul_precision == MatmulPrecision::kHighest;
  if (!c.facts.cuda || !c.facts.tf32 || !c.fp32() || !off) return "";
  return "fp32 matrix products run without TF32 on a GPU that has it, several times slower; set "
         "precision.float32_matmul_precision to \"high\", or precision.dtype to \"bf16\"";
}

std::string fp32_on_cpu(const Case& c) {
  const bool medium = c.config.precision.float32_matmul_precision == MatmulPrecision::kMedium;
  if (c.facts.cuda || !c.facts.fast_bf16 || !c.fp32() || medium) return "";
  if (c.config.model.d_model < kWideModel) return "";
  return "this processor computes matrix products about three times as fast in bf16; set "
         "precision.dtype to \"bf16\" if its precision will do";
}

std::string odd_vocabulary(const Case& c) {
  if (!c.tensor_cores() || c.classes() < kManyClasses || c.classes() % 8 == 0) return "";
  const char* key = c.config.model.n_classes > 0 ? "model.n_classes " : "model.vocab_size ";
  return key + std::to_string(c.classes()) +
         " is no multiple of 8, which tensor cores want: the head's products run on a slower "
         "kernel; set it to " +
         std::to_string(next_multiple(c.classes(), 64)) + " (the rest is never used)";
}

std::string odd_widths(const Case& c) {
  const ModelConfig& model = c.config.model;
  const int64_t heads = std::max<int64_t>(model.n_heads, 1);
  // On the CPU the blocks' own fused kernels want 16 (docs/performance.md).
  const int64_t wanted = c.facts.cuda ? 8 : 16;
  if ((c.facts.cuda && !c.tensor_cores()) || c.plan.parameter_count < kLargeModel) return "";
  const auto say = [&](const std::string& what, int64_t value) {
    return what + " " + std::to_string(value) + " is no multiple of " + std::to_string(wanted) +
           ", which the fast kernels want; choose one (64 or 128 is best)";
  };
  if (model.d_model % wanted != 0) return say("model.d_model", model.d_model);
  if (model.d_ff % wanted != 0) return say("model.d_ff", model.d_ff);
  if (model.d_model / heads % wanted != 0)
    return say("the head size (model.d_model / model.n_heads)", model.d_model / heads);
  return "";
}

std::string math_attention(const Case& c) {
  const AttentionBackend wanted = c.config.backend.attention;
  if (!c.facts.attention.starts_with("math")) return "";
  if (wanted == AttentionBackend::kMath) {
    // Flash attention serves fp16 and bf16 on a GPU, and no dropout on a CPU.
    const bool flash = c.facts.cuda ? !c.fp32() : c.config.model.dropout == 0;
    if (!flash || c.plan.parameter_count < kLargeModel) return "";
    return "backend.attention is \"math\", which writes all scores to memory; \"auto\" takes a "
           "fused kernel here";
  }
  if (!c.facts.cuda) return "";
  return "no fused attention kernel serves this model, and the math one writes all scores to "
         "memory; set precision.dtype to \"bf16\", or a head size (model.d_model / model.n_heads) "
         "that is a multiple of 8 and at most 128";
}

std::string few_threads(const Case& c) {
  const SlowPathFacts& facts = c.facts;
  if (facts.cuda || facts.threads * 2 > facts.processors) return "";
  if (c.plan.parameter_count < kLargeModel) return "";
  const bool own = c.config.backend.threads > 0;
  return std::to_string(facts.threads) +
         (facts.threads == 1 ? " thread computes" : " threads compute") + " where " +
         std::to_string(facts.processors) + " processors are this process's; " +
         (own ? "set backend.threads to 0" : "unset OMP_NUM_THREADS, or set backend.threads");
}

std::string old_kernels(const Case& c) {
  if (c.facts.cuda || c.facts.cpu_capability != "DEFAULT") return "";
  return "LibTorch computes without AVX2; unset ATEN_CPU_CAPABILITY, or use a processor (or "
         "virtual "
         "machine type) that has it";
}

std::string benchmark_with_varying_shapes(const Case& c) {
  return c.facts.cuda ? c.facts.varying_shapes : "";
}

std::string loading_in_the_loop(const Case& c) {
  if (!c.facts.cuda || c.config.data.workers > 0) return "";
  return "data.workers is 0: batches are prepared between the steps, while the GPU waits; set it "
         "to "
         "1 or more";
}

// A validation's forward pass takes about a third of a training step's time per sequence.
std::string much_validation(const Case& c) {
  const int64_t interval = c.config.validation.interval.steps;
  if (interval == 0) return "";
  int64_t sequences = c.facts.validation_sequences;
  if (const int64_t most = c.config.validation.max_batches; most > 0)
    sequences = std::min(sequences, most * c.config.training.micro_batch_size);
  const int64_t trained = interval * c.plan.batch.global_batch_size;
  if (sequences < kManySequences || sequences / 3 <= trained) return "";
  return "each validation reads " + std::to_string(sequences) + " sequences after " +
         std::to_string(trained) +
         " of training, and takes longer than that; raise validation.interval, or set "
         "validation.max_batches";
}

struct Row {
  const char* id;
  std::string (*check)(const Case& c);
};
constexpr Row kRows[] = {
    {"debug-build", debug_build},
    {"tf32-off", tf32_off},
    {"fp32-on-cpu", fp32_on_cpu},
    {"odd-vocabulary", odd_vocabulary},
    {"odd-widths", odd_widths},
    {"math-attention", math_attention},
    {"few-threads", few_threads},
    {"old-kernels", old_kernels},
    {"cudnn-benchmark", benchmark_with_varying_shapes},
    {"loading-in-the-loop", loading_in_the_loop},
    {"much-validation", much_validation},
};

}  // namespace

std::vector<SlowPath> slow_paths(const Config& config, const RunPlan& plan,
                                 const SlowPathFacts& facts) {
  const Case c{config, plan, facts};
  std::vector<SlowPath> found;
  for (const Row& row : kRows) {
    if (std::string warning = row.check(c); !warning.empty())
      found.push_back({row.id, std::move(warning)});
  }
  return found;
}

}  // namespace trainctl
