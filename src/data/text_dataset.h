#pragma once

#include <memory>
#include <string>

#include "trainctl/data/data.h"
#include "trainctl/text/byte_corpus.h"
#include "trainctl/text/text_split.h"

namespace trainctl {

// Windows of `seq_len` over tokens [begin, end) of a corpus. Window i reads tokens [i·L, i·L + L)
// and its targets are the tokens one further on, so n tokens make ceil((n - 1) / L) windows and
// each token but the first is a target once.
class TextDataset final : public Dataset {
 public:
  // end - begin is at least 2.
  TextDataset(std::shared_ptr<const ByteCorpus> corpus, int64_t begin, int64_t end,
              int64_t seq_len);

  int64_t size() const override { return window_count(targets_ + 1, seq_len_); }
  int64_t sample_length(int64_t index) const override;
  int64_t valid_targets(int64_t index) const override { return sample_length(index); }
  void read(int64_t index, int64_t* tokens, int64_t* targets) const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::shared_ptr<const ByteCorpus> corpus_;
  int64_t begin_, targets_, seq_len_;
  std::string fingerprint_;
};

DatasetPair open_text_datasets(const Config& config);

}  // namespace trainctl
