// An optimizer's state as named tensors and back.
#pragma once

#include <vector>

#include "train/optimizer_bucket.h"
#include "trainctl/checkpoint/tensor_files.h"

namespace trainctl {

// In the order of the model's parameters, `parameter_count` of them in all buckets together.
std::vector<TensorEntry> optimizer_state(const std::vector<OptimizerBucket>& buckets,
                                         const OptimizerStateLayout& layout,
                                         size_t parameter_count);

// Copies the file's tensors into the buckets' and returns the buckets, split where step counts
// differ. Checks everything before it changes anything; throws checkpoint_error.
std::vector<OptimizerBucket> load_optimizer_state(const std::vector<OptimizerBucket>& buckets,
                                                  const OptimizerStateLayout& layout,
                                                  const TensorFiles& file);

}  // namespace trainctl
