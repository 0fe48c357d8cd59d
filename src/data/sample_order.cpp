#include "data/permutation.h"
#include "trainctl/data/data.h"

namespace trainctl {
namespace {

// Tokens of the one shorter window at the end, or 0.
int64_t short_window(const Dataset& dataset) {
  const int64_t last = dataset.sample_length(dataset.size() - 1);
  return last < dataset.sample_length(0) ? last : 0;
}

}  // namespace

DataExtent extent_of(const Dataset& dataset) {
  DataExtent extent;
  extent.sequences_per_epoch = dataset.size();
  extent.short_window_tokens = short_window(dataset);
  const int64_t full = dataset.size() - (extent.short_window_tokens > 0 ? 1 : 0);
  extent.tokens_per_epoch = full * dataset.sample_length(0) + extent.short_window_tokens;
  return extent;
}

SampleOrder::SampleOrder(const Dataset& dataset, uint64_t seed, bool shuffle)
    : full_size_(dataset.size() - (short_window(dataset) > 0 ? 1 : 0)),
      size_(dataset.size()),
      seed_(seed),
      shuffle_(shuffle) {}

int64_t SampleOrder::at(int64_t epoch, int64_t index) const {
  if (!shuffle_ || index >= full_size_) return index;
  const uint64_t key = derive_seed(seed_, kShuffleStream, static_cast<uint64_t>(epoch));
  const Permutation permute(static_cast<uint64_t>(full_size_), key);
  return static_cast<int64_t>(permute(static_cast<uint64_t>(index)));
}

}  // namespace trainctl
