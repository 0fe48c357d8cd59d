#include "data/text_dataset.h"

#include <algorithm>

#include "trainctl/base/files.h"

namespace trainctl {

TextDataset::TextDataset(std::shared_ptr<const ByteCorpus> corpus, int64_t begin, int64_t end,
                         int64_t seq_len)
    : corpus_(std::move(corpus)), begin_(begin), targets_(end - begin - 1), seq_len_(seq_len) {
  // By content, not by name: a data set that was moved is still the same. The window length belongs
  // to it, since a position counts windows.
  fingerprint_ = "text/bytes:" + std::to_string(end - begin) + ":" + std::to_string(seq_len) + ":" +
                 to_hex(corpus_->checksum(begin, end));
}

int64_t TextDataset::sample_length(int64_t index) const {
  return std::min(seq_len_, targets_ - index * seq_len_);
}

void TextDataset::read(int64_t index, int64_t* tokens, int64_t* targets) const {
  const int64_t begin = begin_ + index * seq_len_, length = sample_length(index);
  corpus_->read(begin, length, tokens);
  std::copy_n(tokens + 1, length - 1, targets);
  corpus_->read(begin + length, 1, targets + length - 1);
}

}  // namespace trainctl
