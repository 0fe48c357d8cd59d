#pragma once

#include <string>

#include "trainctl/data/data.h"

namespace trainctl {

// Random tokens and labels, independent of each other and uniform: a load without files, on which
// no model can do better than ln(classes) except by learning samples by heart. Sample i is a
// function of (seed, i) alone.
class SyntheticDataset final : public Dataset {
 public:
  struct Shape {
    int64_t first = 0, size = 0;  // of the endless sequence of samples
    int64_t seq_len = 0;
    int64_t vocab_size = 0;  // tokens are below it
    int64_t n_classes = 0;   // labels are below it
    bool label_per_sequence = false;
  };
  SyntheticDataset(uint64_t seed, const Shape& shape) : seed_(seed), shape_(shape) {}

  int64_t size() const override { return shape_.size; }
  int64_t sample_length(int64_t) const override { return shape_.seq_len; }
  int64_t valid_targets(int64_t) const override {
    return shape_.label_per_sequence ? 1 : shape_.seq_len;
  }
  void read(int64_t index, int64_t* tokens, int64_t* targets) const override;
  bool targets_per_sequence() const override { return shape_.label_per_sequence; }
  std::string fingerprint() const override;

 private:
  uint64_t seed_;
  Shape shape_;
};

DatasetPair open_synthetic_datasets(const Config& config);

}  // namespace trainctl
