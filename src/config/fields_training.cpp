// Fields of the training itself: its length, the optimizer, the schedule, validation.
#include "config/field.h"

namespace trainctl {
namespace {

bool is_sgd(const Config& c) { return c.optimizer.type == OptimizerType::kSgd; }
bool is_adam(const Config& c) { return !is_sgd(c); }
bool decays(const Config& c) { return c.lr_scheduler.type != ScheduleType::kConstant; }
bool is_wsd(const Config& c) { return c.lr_scheduler.type == ScheduleType::kWarmupStableDecay; }
bool is_wsd_by_ratio(const Config& c) { return is_wsd(c) && c.lr_scheduler.decay_steps == 0; }
bool has_prompts(const Config& c) { return !c.validation.prompts.empty(); }
bool writes_text(const Config& c) {
  return c.model.type == ModelType::kGpt && c.data.format == DataFormat::kText;
}
bool stops_early(const Config& c) { return c.validation.early_stopping.patience > 0; }

constexpr Condition kSgd = {is_sgd, "optimizer.type is sgd", "optimizer.type"};
constexpr Condition kAdam = {is_adam, "optimizer.type is adamw or adam", "optimizer.type"};
constexpr Condition kPrompts = {has_prompts, "validation.prompts has some", "validation.prompts"};

Table make_training_table() {
  Table t;
  t.doc =
      "Length of the run and the size of a step. At least one of max_steps, max_tokens, epochs and "
      "max_time is needed, and the first one reached ends the run; but max_time ends one process "
      "only, "
      "as a request to stop would, and the same command goes on.";
  add_field<&TrainingConfig::max_steps>(t, "max_steps", "Optimizer steps; 0: no such limit.")
      .unit("steps")
      .range(0, 1e15)
      .aka({"max_iters", "steps", "total_steps", "num_steps"})
      .starter("1000");
  add_field<&TrainingConfig::max_tokens>(t, "max_tokens", "Target tokens seen; 0: no such limit.")
      .unit("tokens")
      .range(0, 9e15);
  add_field<&TrainingConfig::epochs>(t, "epochs", "Passes over the data; 0: no such limit.")
      .unit("epochs")
      .range(0, 1e9)
      .aka({"num_epochs", "num_train_epochs", "max_epochs"});
  add_field<&TrainingConfig::max_time>(t, "max_time",
                                       "Training time of one process, which then stops with a "
                                       "checkpoint and exit code 75; 0: no such limit.")
      .unit("seconds")
      .range(0, 1e10)
      .time()
      .aka({"max_duration", "max_seconds", "time_limit"});
  add_field<&TrainingConfig::micro_batch_size>(t, "micro_batch_size",
                                               "Sequences a rank computes at once.")
      .unit("sequences")
      .range(1, 1048576)
      .aka({"batch_size", "train_batch_size", "per_device_train_batch_size"})
      .starter("8");
  add_field<&TrainingConfig::global_batch_size>(t, "global_batch_size",
                                                "Sequences of one step, over all ranks.")
      .unit("sequences")
      .range(0, 1e9)
      .derived("0: micro_batch_size × gradient_accumulation_steps × ranks");
  add_field<&TrainingConfig::gradient_accumulation_steps>(
      t, "gradient_accumulation_steps",
      "Micro-batches a rank adds up to one step; must agree with global_batch_size.")
      .range(1, 1048576)
      .derived("global_batch_size / (micro_batch_size × ranks)")
      .aka({"accumulate_grad_batches", "grad_accum_steps", "accumulation_steps",
            "grad_accumulation"});
  add_field<&TrainingConfig::max_grad_norm>(t, "max_grad_norm",
                                            "Gradients are clipped to this norm; 0: not at all.")
      .range(0, 1e30)
      .aka({"grad_clip", "clip_grad", "clip_grad_norm", "gradient_clip_val"})
      .starter("1.0");
  add_field<&TrainingConfig::label_smoothing>(t, "label_smoothing",
                                              "As in torch.nn.functional.cross_entropy.")
      .at_least(0)
      .below(1);
  add_field<&TrainingConfig::loss>(t, "loss", "How the loss is computed.");
  add_field<&TrainingConfig::overfit_one_batch>(
      t, "overfit_one_batch", "Train on the first batch only, to see that the loss can fall to 0.");
  add_field<&TrainingConfig::max_nonfinite_steps>(
      t, "max_nonfinite_steps",
      "Steps in a row with infinite or NaN gradients after which the run stops.")
      .unit("steps")
      .range(1, 1e9);
  return t;
}

Table make_group_table() {
  Table t;
  t.doc = "Parameters with settings of their own.";
  add_field<&ParamGroupConfig::params>(t, "params",
                                       "Glob over parameter names, such as \"*.mlp.*\".")
      .rule(StringRule::kNotEmpty);
  add_field<&ParamGroupConfig::weight_decay>(t, "weight_decay",
                                             "In place of optimizer.weight_decay.")
      .range(0, 1e6);
  add_field<&ParamGroupConfig::learning_rate>(t, "learning_rate",
                                              "In place of optimizer.learning_rate.")
      .range(0, 1e30)
      .aka({"lr"});
  return t;
}

const Table& group_table() {
  static const Table table = make_group_table();
  return table;
}

Table make_optimizer_table() {
  Table t;
  t.doc = "How gradients become updates.";
  add_field<&OptimizerConfig::type>(t, "type", "Kind of optimizer.").starter("\"adamw\"");
  add_field<&OptimizerConfig::learning_rate>(t, "learning_rate", "Highest learning rate.")
      .above(0)
      .at_most(1e30)
      .aka({"lr", "max_lr", "max_learning_rate", "peak_lr"})
      .starter("0.0003");
  add_field<&OptimizerConfig::weight_decay>(t, "weight_decay", "Weight decay.")
      .range(0, 1e6)
      .aka({"wd"})
      .starter("0.1");
  add_field<&OptimizerConfig::betas>(t, "betas", "Decay rates of Adam's two averages.")
      .at_least(0)
      .below(1)
      .elements(2)
      .only_when(kAdam, Misfit::kWarn)
      .aka({"beta1", "beta2", "adam_beta1", "adam_beta2"})
      .starter("[0.9, 0.95]");
  add_field<&OptimizerConfig::eps>(t, "eps", "Added to Adam's denominator.")
      .range(0, 1)
      .only_when(kAdam, Misfit::kWarn)
      .aka({"epsilon", "adam_epsilon"});
  add_field<&OptimizerConfig::momentum>(t, "momentum", "Momentum.")
      .at_least(0)
      .below(1)
      .only_when(kSgd, Misfit::kRefuse, "0.0");
  add_field<&OptimizerConfig::nesterov>(t, "nesterov", "Nesterov's momentum.")
      .only_when(kSgd, Misfit::kRefuse);
  add_field<&OptimizerConfig::no_decay>(t, "no_decay", "Kinds of parameters without weight decay.")
      .one_of({"norm", "bias", "embedding", "matrix"});
  add_list<&OptimizerConfig::groups>(
      t, "groups", group_table,
      "Groups of parameters with settings of their own. The first that matches a parameter "
      "holds, before no_decay.")
      .aka({"param_groups", "parameter_groups"});
  return t;
}

Table make_lr_scheduler_table() {
  Table t;
  t.doc = "The learning rate over time.";
  add_field<&LrSchedulerConfig::type>(t, "type", "Shape after warm-up.")
      .aka({"schedule", "scheduler", "lr_scheduler_type"})
      .starter("\"cosine\"");
  add_field<&LrSchedulerConfig::warmup_steps>(t, "warmup_steps",
                                              "Steps over which the rate rises from near 0.")
      .unit("steps")
      .range(0, 1e15)
      .aka({"warmup", "warmup_iters", "num_warmup_steps"})
      .starter("100");
  add_field<&LrSchedulerConfig::warmup_ratio>(t, "warmup_ratio",
                                              "The same as a share of all steps.")
      .at_least(0)
      .below(1)
      .aka({"warmup_fraction"});
  add_field<&LrSchedulerConfig::min_learning_rate>(t, "min_learning_rate",
                                                   "Lowest rate at the end.")
      .range(0, 1e30)
      .only_when({decays, "lr_scheduler.type is not constant", "lr_scheduler.type"}, Misfit::kWarn)
      .aka({"min_lr", "end_learning_rate", "eta_min"})
      .starter("0.00003");
  add_field<&LrSchedulerConfig::decay_steps>(t, "decay_steps", "Last steps, over which it falls.")
      .unit("steps")
      .range(0, 1e15)
      .derived("0: decay_ratio of all steps")
      .only_when({is_wsd, "lr_scheduler.type is warmup_stable_decay", "lr_scheduler.type"},
                 Misfit::kRefuse);
  add_field<&LrSchedulerConfig::decay_ratio>(t, "decay_ratio", "The same as a share of all steps.")
      .range(0, 1)
      .only_when(
          {is_wsd_by_ratio, "lr_scheduler.type is warmup_stable_decay and decay_steps is not given",
           "lr_scheduler.type"},
          Misfit::kRefuse);
  return t;
}

Table make_early_stopping_table() {
  Table t;
  t.doc = "Ending the run when validation no longer improves.";
  add_field<&EarlyStoppingConfig::patience>(
      t, "patience", "Validations without improvement before the run ends; 0: never.")
      .range(0, 1e9);
  add_field<&EarlyStoppingConfig::min_delta>(t, "min_delta",
                                             "Least fall of the loss that counts as improvement.")
      .range(0, 1e6)
      .only_when({stops_early, "validation.early_stopping.patience is above 0",
                  "validation.early_stopping.patience"},
                 Misfit::kWarn);
  return t;
}

const Table& early_stopping_table() {
  static const Table table = make_early_stopping_table();
  return table;
}

Table make_validation_table() {
  Table t;
  t.doc = "Measuring on data not trained on, and samples of what the model writes.";
  add_field<&ValidationConfig::interval>(t, "interval", "How often; 0: only at the end.")
      .aka({"eval_interval", "eval_steps", "val_interval", "val_check_interval", "every"})
      .starter("100");
  add_field<&ValidationConfig::max_batches>(t, "max_batches", "Batches measured; 0: all.")
      .unit("batches")
      .range(0, 1e12)
      .aka({"eval_iters", "limit_val_batches"});
  add_field<&ValidationConfig::prompts>(t, "prompts",
                                        "Texts to continue after each validation and at the end.")
      .rule(StringRule::kNotEmpty)
      .only_when({writes_text, "model.type is gpt and data.format is text", "model.type"},
                 Misfit::kRefuse)
      .starter("[\"Once upon a time\"]");
  add_field<&ValidationConfig::sample_tokens>(t, "sample_tokens", "Length of a continuation.")
      .unit("tokens")
      .range(1, 1e6)
      .only_when(kPrompts, Misfit::kWarn);
  add_field<&ValidationConfig::temperature>(t, "temperature",
                                            "Divides the logits before sampling; 0: the likeliest.")
      .range(0, 1000)
      .only_when(kPrompts, Misfit::kWarn);
  add_field<&ValidationConfig::top_k>(t, "top_k", "Sample among the k likeliest; 0: among all.")
      .range(0, 2147483647)
      .only_when(kPrompts, Misfit::kWarn);
  add_section<&ValidationConfig::early_stopping>(t, "early_stopping", early_stopping_table);
  return t;
}

}  // namespace

const Table& training_table() {
  static const Table table = make_training_table();
  return table;
}

const Table& optimizer_table() {
  static const Table table = make_optimizer_table();
  return table;
}

const Table& lr_scheduler_table() {
  static const Table table = make_lr_scheduler_table();
  return table;
}

const Table& validation_table() {
  static const Table table = make_validation_table();
  return table;
}

}  // namespace trainctl
