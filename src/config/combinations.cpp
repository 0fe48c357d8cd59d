// Values that are right one by one and wrong together.
#include <cmath>

#include "config/load_state.h"
#include "config/value.h"

namespace trainctl {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

void check_model(LoadState* s) {
  const ModelConfig& m = s->config.model;
  const bool encoder = m.type == ModelType::kEncoderClassifier;
  if (m.d_model % m.n_heads != 0) {
    std::string divisors;
    for (int64_t heads = 1; heads <= std::min<int64_t>(m.d_model, 64); ++heads) {
      if (m.d_model % heads == 0) divisors += (divisors.empty() ? "" : ", ") + text(heads);
    }
    s->conflict({"model.n_heads", "model.d_model"},
                text(m.n_heads) + " heads do not divide d_model " + text(m.d_model) +
                    "; such numbers do: " + divisors);
  } else if (m.position == PositionType::kRotary && (m.d_model / m.n_heads) % 2 != 0) {
    s->conflict({"model.position", "model.n_heads", "model.d_model"},
                "rotary positions need an even head width; d_model / n_heads is " +
                    text(m.d_model / m.n_heads));
  }
  if (encoder && m.activation == Activation::kSwiglu) {
    s->conflict({"model.activation", "model.type"},
                "encoder_classifier offers gelu, gelu_tanh and relu, not swiglu");
  }
  if (encoder && m.pooling != Pooling::kNone && m.n_classes == 1) {
    s->conflict({"model.n_classes"}, "a classifier needs at least 2 classes");
  }
}

void check_data(LoadState* s) {
  const ModelConfig& m = s->config.model;
  const DataConfig& d = s->config.data;
  const bool text_data = d.format == DataFormat::kText;
  const bool encoder = m.type == ModelType::kEncoderClassifier;
  if (d.seq_len > m.max_seq_len) {
    s->conflict({"data.seq_len", "model.max_seq_len"},
                "windows of " + text(d.seq_len) + " tokens are longer than model.max_seq_len " +
                    text(m.max_seq_len) + "; shorten seq_len or raise max_seq_len");
  }
  // A misspelled key in the section is the likelier reason for what seems missing, here and below.
  if (text_data && d.train.empty() && !s->report.touches("data")) {
    s->conflict({"data.train", "data.format"},
                "names no files; text data need some, such as [\"data/*.txt\"]");
  }
  if (text_data && m.vocab_size < 257) {
    s->conflict({"model.vocab_size", "data.format"},
                "must be at least 257 for text read as bytes (256 is end of text), not " +
                    text(m.vocab_size));
  }
  if (text_data && encoder && m.pooling != Pooling::kNone) {
    s->conflict({"model.pooling", "data.format"},
                "text data hold no class per sequence; pooling needs data.format synthetic");
  } else if (text_data && encoder && m.n_classes != 0 && m.n_classes < m.vocab_size) {
    s->conflict({"model.n_classes", "model.vocab_size"},
                "text data's labels are tokens: n_classes must be vocab_size or left out");
  } else if (text_data && encoder) {
    s->warn("model.type",
            "encoder_classifier sees the whole window, so next-token labels of text data are no "
            "test of it: its loss says little");
  }
}

void check_limits(LoadState* s) {
  const TrainingConfig& t = s->config.training;
  const LrSchedulerConfig& lr = s->config.lr_scheduler;
  const bool counted = t.max_steps > 0 || t.max_tokens > 0 || t.epochs > 0;
  if (!counted && t.max_time == 0) {
    if (s->report.touches("training")) return;
    s->conflict(
        {"training.max_steps", "training.max_tokens", "training.epochs", "training.max_time"},
        "nothing ends the run; give max_steps, max_tokens, epochs or max_time");
    return;
  }
  const bool needs_end = lr.type == ScheduleType::kLinear || lr.type == ScheduleType::kCosine ||
                         lr.type == ScheduleType::kWarmupStableDecay;
  if (!counted && (needs_end || lr.warmup_ratio > 0)) {
    s->conflict({"lr_scheduler.type", "training.max_time", "lr_scheduler.warmup_ratio"},
                "this schedule needs the number of steps: give training.max_steps, max_tokens or "
                "epochs beside max_time, or take constant or inverse_sqrt with warmup_steps");
  }
}

// The split over ranks is checked when their number is known (plan/plan.h); this much is so for
// any.
void check_batches(LoadState* s) {
  const TrainingConfig& t = s->config.training;
  const int64_t accumulation = t.gradient_accumulation_steps.value_or(1);
  const int64_t per_rank = t.micro_batch_size * accumulation;
  constexpr int64_t kLargest = 1000000000;
  if (per_rank > kLargest) {
    s->conflict({"training.micro_batch_size", "training.gradient_accumulation_steps"},
                "micro_batch_size × gradient_accumulation_steps is " + text(per_rank) +
                    "; at most " + text(kLargest) + " sequences make a step");
    return;
  }
  if (t.global_batch_size == 0 || t.global_batch_size % per_rank == 0) return;
  if (t.gradient_accumulation_steps) {
    s->conflict({"training.global_batch_size", "training.gradient_accumulation_steps",
                 "training.micro_batch_size"},
                text(t.global_batch_size) + " is not a multiple of micro_batch_size " +
                    text(t.micro_batch_size) + " × gradient_accumulation_steps " +
                    text(accumulation) + "; leave one of the three out");
  } else {
    s->conflict({"training.global_batch_size", "training.micro_batch_size"},
                text(t.global_batch_size) + " is not a multiple of micro_batch_size " +
                    text(t.micro_batch_size));
  }
}

void check_schedule(LoadState* s) {
  const LrSchedulerConfig& lr = s->config.lr_scheduler;
  if (lr.warmup_steps > 0 && lr.warmup_ratio > 0) {
    s->conflict({"lr_scheduler.warmup_ratio", "lr_scheduler.warmup_steps"},
                "give warmup_steps or warmup_ratio, not both");
  }
  if (lr.min_learning_rate > s->config.optimizer.learning_rate) {
    s->conflict({"lr_scheduler.min_learning_rate", "optimizer.learning_rate"},
                number_text(lr.min_learning_rate) + " is above optimizer.learning_rate " +
                    number_text(s->config.optimizer.learning_rate));
  }
}

void check_optimizer(LoadState* s) {
  const OptimizerConfig& o = s->config.optimizer;
  if (o.nesterov && o.momentum == 0) {
    s->conflict({"optimizer.nesterov", "optimizer.momentum"}, "needs a momentum above 0");
  }
  for (size_t i = 0; i < o.groups.size(); ++i) {
    const ParamGroupConfig& group = o.groups[i];
    const std::string path = "optimizer.groups[" + std::to_string(i) + "]";
    if (s->report.has(path) || s->report.has(path + ".params")) continue;
    const Place place = s->given.at("optimizer.groups");
    if (group.params.empty()) {
      s->report.add(place, path,
                    "has no \"params\", the glob that says which parameters it is for");
    } else if (!s->is_given(path + ".weight_decay") && !s->is_given(path + ".learning_rate")) {
      s->report.add(place, path, "changes nothing: give weight_decay or learning_rate");
    }
  }
}

void check_validation(LoadState* s) {
  const Config& c = s->config;
  const bool has_data = !c.data.validation.empty() || c.data.validation_fraction > 0;
  if (c.validation.early_stopping.patience > 0 && !has_data) {
    s->conflict({"validation.early_stopping.patience", "data.validation_fraction"},
                "early stopping needs validation data: data.validation or a "
                "data.validation_fraction above 0");
  } else if (c.validation.early_stopping.patience > 0 && c.validation.interval.never()) {
    s->conflict({"validation.early_stopping.patience", "validation.interval"},
                "early stopping needs validation.interval");
  } else if (!c.validation.interval.never() && !has_data) {
    s->warn("validation.interval", "there are no validation data; only prompts are continued then");
  }
}

void check_backend(LoadState* s) {
  const Config& c = s->config;
  const AttentionBackend attention = c.backend.attention;
  if (c.backend.device == "cpu" &&
      (attention == AttentionBackend::kCudnn || attention == AttentionBackend::kEfficient)) {
    s->conflict({"backend.attention", "backend.device"},
                std::string(enum_names<AttentionBackend>().name_of(static_cast<int>(attention))) +
                    " attention exists on CUDA only; a CPU run takes auto, flash or math");
  }
  if (c.backend.device == "cpu" && c.parallel.backend == CommBackend::kNccl) {
    s->conflict({"parallel.backend", "backend.device"},
                "NCCL works between GPUs only; a CPU run takes auto or gloo");
  }
}

}  // namespace

void check_combinations(LoadState* state) {
  check_model(state);
  check_data(state);
  check_limits(state);
  check_batches(state);
  check_schedule(state);
  check_optimizer(state);
  check_validation(state);
  check_backend(state);
}

}  // namespace trainctl
