#include "trainctl/text/text_split.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "trainctl/base/error.h"
#include "trainctl/text/byte_tokenizer.h"

namespace trainctl {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

void require_one_window(int64_t tokens, int64_t seq_len) {
  if (tokens > seq_len) return;
  throw data_error(
      "data.train: the text has " + number(tokens) +
      " tokens (an end of text after each file included), but one window of data.seq_len " +
      number(seq_len) + " and its next token take " + number(seq_len + 1) +
      "; lower data.seq_len to at most " + number(tokens - 1) + " or add text");
}

}  // namespace

int64_t window_count(int64_t tokens, int64_t seq_len) {
  return (tokens - 1 + seq_len - 1) / seq_len;
}

TextSplit split_text(int64_t tokens, const DataConfig& data) {
  require_one_window(tokens, data.seq_len);
  if (!data.validation.empty() || data.validation_fraction <= 0) return {tokens, std::nullopt};
  const int64_t windows = window_count(tokens, data.seq_len);
  if (windows < 2)
    throw data_error(
        "data.train: the text has " + number(tokens) + " tokens, one window of data.seq_len " +
        number(data.seq_len) +
        ", which leaves nothing for data.validation_fraction; lower data.seq_len, add text, "
        "or set data.validation_fraction to 0");
  const auto share = std::llround(static_cast<double>(windows) * data.validation_fraction);
  const int64_t held_out = std::clamp<int64_t>(share, 1, windows - 1);
  const int64_t cut = (windows - held_out) * data.seq_len;
  return {cut + 1, cut};
}

void require_text_model(const ModelConfig& model) {
  if (model.vocab_size < kByteVocabSize)
    throw data_error("data.format text has token ids 0 to 256, but model.vocab_size is " +
                     number(model.vocab_size) + "; set it to at least 257");
  if (model.pooling != Pooling::kNone)
    throw data_error(
        "data.format text has no label per sequence, which model.pooling asks for; set "
        "model.pooling "
        "to none, or data.format to synthetic");
}

}  // namespace trainctl
