#include "data/synthetic_dataset.h"

#include <algorithm>
#include <cmath>

#include "data/mix64.h"

namespace trainctl {
namespace {

void fill_uniform(uint64_t key, int64_t bound, int64_t count, int64_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = mix64(key + static_cast<uint64_t>(i));
    out[i] = static_cast<int64_t>(below(static_cast<uint64_t>(bound), random));
  }
}

}  // namespace

void SyntheticDataset::read(int64_t index, int64_t* tokens, int64_t* targets) const {
  const auto sample = static_cast<uint64_t>(shape_.first + index);
  fill_uniform(derive_seed(seed_, kSyntheticStream, sample, 0), shape_.vocab_size, shape_.seq_len,
               tokens);
  fill_uniform(derive_seed(seed_, kSyntheticStream, sample, 1), shape_.n_classes,
               shape_.label_per_sequence ? 1 : shape_.seq_len, targets);
}

std::string SyntheticDataset::fingerprint() const {
  std::string text = "synthetic:" + std::to_string(seed_);
  for (const int64_t part : {shape_.first, shape_.size, shape_.seq_len, shape_.vocab_size,
                             shape_.n_classes, int64_t{shape_.label_per_sequence}}) {
    text += ':';
    text += std::to_string(part);
  }
  return text;
}

DatasetPair open_synthetic_datasets(const Config& config) {
  const ModelConfig& model = config.model;
  SyntheticDataset::Shape shape;
  shape.size = config.data.synthetic_sequences;
  shape.seq_len = config.data.seq_len;
  shape.vocab_size = model.vocab_size;
  shape.n_classes = model.vocab_size;
  if (model.type == ModelType::kEncoderClassifier && model.n_classes > 0)
    shape.n_classes = model.n_classes;
  shape.label_per_sequence = model.pooling != Pooling::kNone;

  const auto seed = static_cast<uint64_t>(config.run.seed);
  DatasetPair pair;
  pair.train = std::make_shared<SyntheticDataset>(seed, shape);
  if (config.data.validation_fraction > 0) {
    // Further samples, not a part of the training ones: data.synthetic_sequences are all trained
    // on.
    const double share = static_cast<double>(shape.size) * config.data.validation_fraction;
    shape.first = shape.size;
    shape.size = std::max<int64_t>(std::llround(share), 1);
    pair.validation = std::make_shared<SyntheticDataset>(seed, shape);
  }
  return pair;
}

}  // namespace trainctl
