// Which tokens of a text are trained on and which are held out: arithmetic that the engine and the
// dry run share.
#pragma once

#include <cstdint>
#include <optional>

#include "trainctl/config/config.h"

namespace trainctl {

// Windows of `seq_len` over `tokens` tokens; every token but the first is a target once, so n
// tokens make ceil((n - 1) / seq_len) windows.
int64_t window_count(int64_t tokens, int64_t seq_len);

struct TextSplit {
  int64_t train_tokens = 0;  // from the first token on
  // The last part of the text, up to its end, cut where a window ends: the last target of training
  // is the first input of validation, and no token is a target in both. Unset: nothing is held out.
  std::optional<int64_t> held_out_begin;
};

// Splits the `tokens` tokens of data.train by data.validation_fraction, which counts only where
// data.validation names no files. Throws data_error when they are too few.
TextSplit split_text(int64_t tokens, const DataConfig& data);

// Throws data_error when the model cannot be trained on bytes of text.
void require_text_model(const ModelConfig& model);

}  // namespace trainctl
