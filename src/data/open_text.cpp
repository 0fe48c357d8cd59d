// From data.train and data.validation to windows of text.
#include <set>

#include "data/text_dataset.h"
#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/text_split.h"

namespace trainctl {
namespace {

// Every change of a text by reading it is said, once.
void report_changes(const TextReadCounts& counts, const std::string& key) {
  std::vector<std::string> changes;
  if (counts.crlf > 0) changes.push_back(std::to_string(counts.crlf) + " CRLF line ends became LF");
  if (counts.lone_cr > 0)
    changes.push_back(std::to_string(counts.lone_cr) + " CR line ends became LF");
  if (counts.byte_order_marks > 0)
    changes.push_back(std::to_string(counts.byte_order_marks) + " byte order marks were dropped");
  if (counts.empty_files > 0)
    changes.push_back(std::to_string(counts.empty_files) + " empty files were passed over");
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

}  // namespace

DatasetPair open_text_datasets(const Config& config) {
  const DataConfig& data = config.data;
  require_text_model(config.model);
  if (data.train.empty()) throw data_error("data.train is empty; name at least one text file");
  const std::vector<TextFile> train_files = resolve_text_files(data.train, "data.train");
  const std::vector<TextFile> validation_files =
      resolve_text_files(data.validation, "data.validation");
  warn_of_shared_files(train_files, validation_files);

  const auto corpus = load_corpus(train_files, "data.train");
  const TextSplit split = split_text(corpus->size(), data);
  DatasetPair pair;
  pair.train = std::make_shared<TextDataset>(corpus, 0, split.train_tokens, data.seq_len);
  if (split.held_out_begin) {
    pair.validation =
        std::make_shared<TextDataset>(corpus, *split.held_out_begin, corpus->size(), data.seq_len);
  } else if (!validation_files.empty()) {
    // Never under two tokens: a text has at least one byte and its end.
    const auto held_out = load_corpus(validation_files, "data.validation");
    pair.validation = std::make_shared<TextDataset>(held_out, 0, held_out->size(), data.seq_len);
  }
  return pair;
}

}  // namespace trainctl
