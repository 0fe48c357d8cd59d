// From data.train and data.validation to windows of text.
#include <algorithm>
#include <cmath>
#include <set>

#include "data/text_dataset.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/byte_tokenizer.h"

namespace trainctl {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

void check_model_fits_text(const Config& config) {
  if (config.model.vocab_size < kByteVocabSize)
    throw data_error("data.format text has token ids 0 to 256, but model.vocab_size is " +
                     number(config.model.vocab_size) + "; set it to at least 257");
  if (config.model.pooling != Pooling::kNone)
    throw data_error(
        "data.format text has no label per sequence, which model.pooling asks for; set "
        "model.pooling "
        "to none, or data.format to synthetic");
}

// Every change of a text by reading it is said, once.
void report_changes(const TextReadCounts& counts, const std::string& key) {
  std::vector<std::string> changes;
  if (counts.crlf > 0) changes.push_back(number(counts.crlf) + " CRLF line ends became LF");
  if (counts.lone_cr > 0) changes.push_back(number(counts.lone_cr) + " CR line ends became LF");
  if (counts.byte_order_marks > 0)
    changes.push_back(number(counts.byte_order_marks) + " byte order marks were dropped");
  if (counts.empty_files > 0)
    changes.push_back(number(counts.empty_files) + " empty files were passed over");
  if (!changes.empty()) log_info(key + ": " + join(changes, ", "));
}

std::shared_ptr<const ByteCorpus> load_corpus(const std::vector<TextFile>& files,
                                              const std::string& key) {
  auto corpus = std::make_shared<const ByteCorpus>(ByteCorpus::load(files, key));
  report_changes(corpus->counts(), key);
  return corpus;
}

void warn_of_shared_files(const std::vector<TextFile>& train,
                          const std::vector<TextFile>& validation) {
  const auto canonical = [](const TextFile& file) {
    std::error_code error;
    const fs::path path = fs::canonical(file.path, error);
    return error ? file.path : path;
  };
  std::set<fs::path> trained;
  for (const TextFile& file : train) trained.insert(canonical(file));
  for (const TextFile& file : validation) {
    if (!trained.contains(canonical(file))) continue;
    log_warning("data.validation: '" + file.path.string() +
                "' is also in data.train, so the validation loss does not show overfitting");
    return;
  }
}

void check_long_enough(int64_t tokens, int64_t seq_len) {
  if (tokens > seq_len) return;
  throw data_error(
      "data.train: the text has " + number(tokens) +
      " tokens (an end of text after each file included), but one window of data.seq_len " +
      number(seq_len) + " and its next token take " + number(seq_len + 1) +
      "; lower data.seq_len to at most " + number(tokens - 1) + " or add text");
}

// The last part of the text is held out, cut where a window ends: the last target of training is
// the first input of validation, and no token is a target in both.
DatasetPair split(const std::shared_ptr<const ByteCorpus>& corpus, const DataConfig& data) {
  const int64_t tokens = corpus->size();
  const int64_t windows = (tokens - 1 + data.seq_len - 1) / data.seq_len;
  if (windows < 2)
    throw data_error(
        "data.train: the text has " + number(tokens) + " tokens, one window of data.seq_len " +
        number(data.seq_len) +
        ", which leaves nothing for data.validation_fraction; lower data.seq_len, add text, "
        "or set data.validation_fraction to 0");
  const auto share = std::llround(static_cast<double>(windows) * data.validation_fraction);
  const int64_t held_out = std::clamp<int64_t>(share, 1, windows - 1);
  const int64_t cut = (windows - held_out) * data.seq_len;
  return {std::make_shared<TextDataset>(corpus, 0, cut + 1, data.seq_len),
          std::make_shared<TextDataset>(corpus, cut, tokens, data.seq_len)};
}

}  // namespace

DatasetPair open_text_datasets(const Config& config) {
  const DataConfig& data = config.data;
  check_model_fits_text(config);
  if (data.train.empty()) throw data_error("data.train is empty; name at least one text file");
  const std::vector<TextFile> train_files = resolve_text_files(data.train, "data.train");
  const std::vector<TextFile> validation_files =
      resolve_text_files(data.validation, "data.validation");
  warn_of_shared_files(train_files, validation_files);

  const auto corpus = load_corpus(train_files, "data.train");
  check_long_enough(corpus->size(), data.seq_len);
  if (validation_files.empty() && data.validation_fraction > 0) return split(corpus, data);
  DatasetPair pair;
  pair.train = std::make_shared<TextDataset>(corpus, 0, corpus->size(), data.seq_len);
  if (!validation_files.empty()) {
    // Never under two tokens: a text has at least one byte and its end.
    const auto held_out = load_corpus(validation_files, "data.validation");
    pair.validation = std::make_shared<TextDataset>(held_out, 0, held_out->size(), data.seq_len);
  }
  return pair;
}

}  // namespace trainctl
