// Fields of the model, its data and its precision.
#include "config/field.h"

namespace trainctl {
namespace {

bool is_gpt(const Config& c) { return c.model.type == ModelType::kGpt; }
bool is_encoder(const Config& c) { return c.model.type == ModelType::kEncoderClassifier; }
bool is_text(const Config& c) { return c.data.format == DataFormat::kText; }
bool is_synthetic(const Config& c) { return c.data.format == DataFormat::kSynthetic; }
bool is_rotary(const Config& c) { return c.model.position == PositionType::kRotary; }
bool no_validation_files(const Config& c) { return c.data.validation.empty() || is_synthetic(c); }
bool has_workers(const Config& c) { return c.data.workers > 0; }
bool scales_gradients(const Config& c) {
  const Toggle enabled = c.precision.grad_scaler.enabled;
  return enabled == Toggle::kOn || (enabled == Toggle::kAuto && c.precision.dtype == Dtype::kFp16);
}
bool scales_dynamically(const Config& c) {
  return scales_gradients(c) && c.precision.grad_scaler.dynamic;
}

constexpr Condition kGpt = {is_gpt, "model.type is gpt", "model.type"};
constexpr Condition kEncoder = {is_encoder, "model.type is encoder_classifier", "model.type"};
constexpr Condition kText = {is_text, "data.format is text", "data.format"};
constexpr Condition kSynthetic = {is_synthetic, "data.format is synthetic", "data.format"};
constexpr Condition kScaling = {
    scales_gradients, "gradients are scaled (precision.dtype fp16, or grad_scaler.enabled true)",
    "precision.dtype"};
constexpr Condition kDynamicScaling = {
    scales_dynamically,
    "gradients are scaled (precision.dtype fp16, or grad_scaler.enabled true) with dynamic true",
    "precision.dtype"};

Table make_model_table() {
  Table t;
  t.doc = "The Transformer.";
  add_field<&ModelConfig::type>(t, "type", "Kind of model.").starter("\"gpt\"");
  add_field<&ModelConfig::vocab_size>(t, "vocab_size",
                                      "Number of tokens. Bytes need 257: 256 is end of text.")
      .unit("tokens")
      .range(2, 2147483647)
      .aka({"n_vocab", "vocabulary_size"})
      .starter("257");
  add_field<&ModelConfig::d_model>(t, "d_model", "Width: size of a token's vector.")
      .range(1, 1048576)
      .aka({"n_embd", "hidden_size", "embed_dim", "width", "dim", "d_embed"})
      .starter("256");
  add_field<&ModelConfig::n_layers>(t, "n_layers", "Number of Transformer blocks.")
      .range(1, 10000)
      .aka({"n_layer", "num_layers", "num_hidden_layers", "depth", "layers"})
      .starter("4");
  add_field<&ModelConfig::n_heads>(t, "n_heads", "Attention heads; must divide d_model.")
      .range(1, 65536)
      .aka({"n_head", "num_heads", "nhead", "num_attention_heads", "heads"})
      .starter("8");
  add_field<&ModelConfig::d_ff>(t, "d_ff", "Width of the feed-forward layers.")
      .range(0, 16777216)
      .derived("0: 4 × d_model; with swiglu 8/3 × d_model, rounded up to a multiple of 8")
      .aka({"dim_feedforward", "intermediate_size", "n_inner", "ffn_dim", "ff_dim"});
  add_field<&ModelConfig::max_seq_len>(
      t, "max_seq_len", "Longest sequence the model can take; data.seq_len may be shorter.")
      .unit("tokens")
      .range(1, 16777216)
      .aka({"block_size", "context_length", "n_positions", "n_ctx", "max_position_embeddings"})
      .starter("256");
  add_field<&ModelConfig::dropout>(t, "dropout", "Probability of dropping a value in training.")
      .at_least(0)
      .below(1)
      .starter("0.0");
  add_field<&ModelConfig::tie_embeddings>(t, "tie_embeddings",
                                          "Use the token embedding as the output head too.")
      .only_when(kGpt, Misfit::kRefuse, "false")
      .aka({"tie_weights", "tie_word_embeddings"});
  add_field<&ModelConfig::bias>(t, "bias", "Biases in linear layers and layer norms.")
      .only_when(kGpt, Misfit::kRefuse);
  add_field<&ModelConfig::position>(t, "position", "How the model knows positions.")
      .only_when(kGpt, Misfit::kRefuse);
  add_field<&ModelConfig::rope_theta>(t, "rope_theta", "Base of the rotary angles.")
      .range(1, 1e12)
      .only_when({is_rotary, "model.position is rotary", "model.position"}, Misfit::kRefuse);
  add_field<&ModelConfig::norm_order>(t, "norm_order", "Where the layer norms stand.")
      .derived("pre for gpt, post for encoder_classifier");
  add_field<&ModelConfig::norm_eps>(t, "norm_eps", "Added to the variance in layer norms.")
      .above(0)
      .at_most(1);
  add_field<&ModelConfig::activation>(t, "activation", "Nonlinearity of the feed-forward layers.")
      .derived("gelu for gpt, relu for encoder_classifier");
  add_field<&ModelConfig::init_std>(t, "init_std", "Standard deviation of the initial weights.")
      .above(0)
      .at_most(10)
      .only_when(kGpt, Misfit::kRefuse);
  add_field<&ModelConfig::pooling>(t, "pooling", "What the classifying head looks at.")
      .only_when(kEncoder, Misfit::kRefuse);
  add_field<&ModelConfig::n_classes>(t, "n_classes", "Size of the classifying head.")
      .range(0, 2147483647)
      .derived("0: vocab_size")
      .only_when(kEncoder, Misfit::kRefuse)
      .aka({"num_classes", "num_labels"});
  return t;
}

Table make_data_table() {
  Table t;
  t.doc = "What the model is trained on.";
  add_field<&DataConfig::format>(t, "format", "Kind of data.").starter("\"text\"");
  add_field<&DataConfig::train>(t, "train",
                                "Files to train on: paths and globs (** crosses folders). "
                                "${CONFIG_DIR}, environment variables and ~ are expanded.")
      .rule(StringRule::kPath)
      .only_when(kText, Misfit::kWarn)
      .aka({"files", "paths", "train_files", "dataset"})
      .starter("[\"data/*.txt\"]");
  add_field<&DataConfig::validation>(t, "validation",
                                     "Files to validate on; empty: validation_fraction of train.")
      .rule(StringRule::kPath)
      .only_when(kText, Misfit::kWarn)
      .starter("[]");
  add_field<&DataConfig::validation_fraction>(t, "validation_fraction",
                                              "Share of the data kept for validation.")
      .at_least(0)
      .below(1)
      .only_when({no_validation_files, "data.validation names no files", "data.validation"},
                 Misfit::kWarn)
      .starter("0.1");
  add_field<&DataConfig::seq_len>(t, "seq_len", "Length of a training window.")
      .unit("tokens")
      .range(1, 16777216)
      .aka({"sequence_length", "seq_length"})
      .starter("256");
  add_field<&DataConfig::shuffle>(t, "shuffle", "A new order in every epoch, drawn from run.seed.");
  add_field<&DataConfig::workers>(t, "workers",
                                  "Threads that prepare batches; 0: the training thread does it.")
      .range(0, 256)
      .aka({"num_workers"});
  add_field<&DataConfig::prefetch>(t, "prefetch", "Steps whose batches are kept ready ahead.")
      .range(1, 1024)
      .only_when({has_workers, "data.workers is at least 1", "data.workers"}, Misfit::kWarn);
  add_field<&DataConfig::synthetic_sequences>(t, "synthetic_sequences",
                                              "Random sequences per epoch.")
      .unit("sequences")
      .range(1, 1e12)
      .only_when(kSynthetic, Misfit::kWarn);
  return t;
}

Table make_grad_scaler_table() {
  Table t;
  t.doc = "Scaling of the loss against fp16 underflow, as torch.amp.GradScaler.";
  add_field<&GradScalerConfig::enabled>(t, "enabled", "\"auto\": on for fp16.");
  add_field<&GradScalerConfig::dynamic>(t, "dynamic", "false: the scale stays at init_scale.")
      .only_when(kScaling, Misfit::kWarn);
  add_field<&GradScalerConfig::init_scale>(t, "init_scale", "First scale.")
      .above(0)
      .at_most(1e30)
      .only_when(kScaling, Misfit::kWarn);
  add_field<&GradScalerConfig::growth_factor>(t, "growth_factor",
                                              "Factor after growth_interval good steps.")
      .above(1)
      .at_most(1e6)
      .only_when(kDynamicScaling, Misfit::kWarn);
  add_field<&GradScalerConfig::backoff_factor>(t, "backoff_factor",
                                               "Factor after a step with infinite gradients.")
      .above(0)
      .below(1)
      .only_when(kDynamicScaling, Misfit::kWarn);
  add_field<&GradScalerConfig::growth_interval>(t, "growth_interval",
                                                "Good steps in a row before the scale grows.")
      .unit("steps")
      .range(1, 1e9)
      .only_when(kDynamicScaling, Misfit::kWarn);
  return t;
}

const Table& grad_scaler_table() {
  static const Table table = make_grad_scaler_table();
  return table;
}

Table make_precision_table() {
  Table t;
  t.doc = "Number formats.";
  add_field<&PrecisionConfig::dtype>(t, "dtype", "Format of the products; weights stay fp32.")
      .aka({"fp16", "bf16", "amp", "mixed_precision", "precision"})
      .starter("\"fp32\"");
  add_field<&PrecisionConfig::float32_matmul_precision>(
      t, "float32_matmul_precision", "How exact fp32 matrix products are (TF32 switch).")
      .aka({"tf32", "allow_tf32", "matmul_precision"});
  add_section<&PrecisionConfig::grad_scaler>(t, "grad_scaler", grad_scaler_table);
  return t;
}

}  // namespace

const Table& model_table() {
  static const Table table = make_model_table();
  return table;
}

const Table& data_table() {
  static const Table table = make_data_table();
  return table;
}

const Table& precision_table() {
  static const Table table = make_precision_table();
  return table;
}

}  // namespace trainctl
