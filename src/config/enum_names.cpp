// The words of every choice in a config, with the ones that are known and refused.
#include "config/field.h"

namespace trainctl {
namespace {

template <class E>
EnumValue value(const char* name, E e, const char* doc) {
  return {name, static_cast<int>(e), doc};
}

constexpr const char* kLater = "is not in this version";
constexpr const char* kUseDdp =
    "is not offered: one process that drives several GPUs is slower and needs more memory than one "
    "process per GPU; write \"ddp\"";

}  // namespace

const char* EnumNames::name_of(int v) const {
  for (const EnumValue& entry : values) {
    if (entry.value == v) return entry.name;
  }
  return "?";
}

template <>
const EnumNames& enum_names<ModelType>() {
  static const EnumNames names = {
      {value("gpt", ModelType::kGpt, "decoder that predicts the next token"),
       value("encoder_classifier", ModelType::kEncoderClassifier,
             "encoder with a linear head at every position or over a pooled one")},
      {{"bert", kLater, true}, {"llama", kLater, true}}};
  return names;
}

template <>
const EnumNames& enum_names<PositionType>() {
  static const EnumNames names = {
      {value("learned", PositionType::kLearned, "a learned vector per position"),
       value("rotary", PositionType::kRotary, "rotary embedding of queries and keys")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<NormOrder>() {
  static const EnumNames names = {
      {value("pre", NormOrder::kPre, "layer norm before attention and feed-forward"),
       value("post", NormOrder::kPost, "layer norm after each residual sum")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<Activation>() {
  static const EnumNames names = {
      {value("gelu", Activation::kGelu, "exact GELU"),
       value("gelu_tanh", Activation::kGeluTanh, "GELU's tanh approximation"),
       value("relu", Activation::kRelu, "ReLU"),
       value("swiglu", Activation::kSwiglu, "SiLU-gated linear unit (three matrices)")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<Pooling>() {
  static const EnumNames names = {
      {value("none", Pooling::kNone, "a prediction at every position"),
       value("mean", Pooling::kMean, "one prediction from the mean over positions"),
       value("first", Pooling::kFirst, "one prediction from the first position")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<DataFormat>() {
  static const EnumNames names = {
      {value("text", DataFormat::kText, "UTF-8 text files, one token per byte"),
       value("synthetic", DataFormat::kSynthetic, "random tokens, for measuring and tests")},
      {{"tokens", kLater, true}, {"jsonl", kLater, true}}};
  return names;
}

template <>
const EnumNames& enum_names<LossType>() {
  static const EnumNames names = {
      {value("auto", LossType::kAuto, "chosen for the vocabulary"),
       value("full", LossType::kFull, "cross-entropy over whole logits")},
      {{"chunked", kLater, true}, {"vocab_parallel", kLater, true}, {"sampled", kLater, true}}};
  return names;
}

template <>
const EnumNames& enum_names<OptimizerType>() {
  static const EnumNames names = {
      {value("adamw", OptimizerType::kAdamW, "Adam with decoupled weight decay"),
       value("adam", OptimizerType::kAdam, "Adam with weight decay added to the gradient"),
       value("sgd", OptimizerType::kSgd, "stochastic gradient descent with momentum")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<ScheduleType>() {
  static const EnumNames names = {
      {value("constant", ScheduleType::kConstant, "the same rate after warm-up"),
       value("linear", ScheduleType::kLinear, "straight down to min_learning_rate"),
       value("cosine", ScheduleType::kCosine, "half a cosine down to min_learning_rate"),
       value("inverse_sqrt", ScheduleType::kInverseSqrt, "with one over the root of the step"),
       value("warmup_stable_decay", ScheduleType::kWarmupStableDecay,
             "constant, then straight down over the last steps")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<Dtype>() {
  static const EnumNames names = {
      {value("fp32", Dtype::kFp32, "32-bit floats throughout"),
       value("bf16", Dtype::kBf16, "autocast to bfloat16"),
       value("fp16", Dtype::kFp16, "autocast to half precision, with gradient scaling")},
      {{"float32", "is written \"fp32\"", false},
       {"bfloat16", "is written \"bf16\"", false},
       {"float16", "is written \"fp16\"", false},
       {"half", "is written \"fp16\"", false},
       {"tf32",
        "is no dtype here: write \"fp32\", and \"high\" for "
        "precision.float32_matmul_precision",
        false},
       {"fp8", kLater, true}}};
  return names;
}

template <>
const EnumNames& enum_names<MatmulPrecision>() {
  static const EnumNames names = {
      {value("highest", MatmulPrecision::kHighest, "full fp32"),
       value("high", MatmulPrecision::kHigh, "TF32 on GPUs that have it"),
       value("medium", MatmulPrecision::kMedium, "bfloat16 inside fp32 products")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<AttentionBackend>() {
  static const EnumNames names = {
      {value("auto", AttentionBackend::kAuto, "the fastest one that serves the inputs"),
       value("math", AttentionBackend::kMath, "plain products and softmax"),
       value("flash", AttentionBackend::kFlash, "flash attention"),
       value("efficient", AttentionBackend::kEfficient, "memory-efficient attention (CUDA)"),
       value("cudnn", AttentionBackend::kCudnn, "cuDNN's fused attention (CUDA)")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<ParallelStrategy>() {
  static const EnumNames names = {
      {value("ddp", ParallelStrategy::kDdp, "every rank holds the whole model")},
      {{"zero1", kLater, true},
       {"zero2", kLater, true},
       {"fsdp", kLater, true},
       {"dp", kUseDdp, false},
       {"data_parallel", kUseDdp, false},
       {"DataParallel", kUseDdp, false},
       {"dataparallel", kUseDdp, false}}};
  return names;
}

template <>
const EnumNames& enum_names<CommBackend>() {
  static const EnumNames names = {
      {value("auto", CommBackend::kAuto, "NCCL between GPUs, Gloo between CPUs"),
       value("nccl", CommBackend::kNccl, "NCCL"), value("gloo", CommBackend::kGloo, "Gloo")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<GradientCompression>() {
  static const EnumNames names = {
      {value("none", GradientCompression::kNone, "fp32, as they are"),
       value("bf16", GradientCompression::kBf16, "bfloat16: half the traffic, 8 bits of precision"),
       value("fp16", GradientCompression::kFp16,
             "half precision: half the traffic; small gradients underflow")},
      {{"powersgd", kLater, true}}};
  return names;
}

template <>
const EnumNames& enum_names<SaveErrorPolicy>() {
  static const EnumNames names = {
      {value("continue", SaveErrorPolicy::kContinue,
             "warn, train on and try again at the next interval"),
       value("stop", SaveErrorPolicy::kStop, "end the run with exit code 5")},
      {}};
  return names;
}

template <>
const EnumNames& enum_names<ProgressStyle>() {
  static const EnumNames names = {
      {value("auto", ProgressStyle::kAuto, "a bar on a terminal, lines elsewhere"),
       value("bar", ProgressStyle::kBar, "one line that is redrawn"),
       value("lines", ProgressStyle::kLines, "a line per record"),
       value("none", ProgressStyle::kNone, "nothing")},
      {}};
  return names;
}

}  // namespace trainctl
