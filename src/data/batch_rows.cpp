#include "data/batch_rows.h"

#include <algorithm>

#include "trainctl/model/model.h"

namespace trainctl {

RankShare share_of_step(int64_t count, int64_t micro_batch_size, const WorldShape& world) {
  const int64_t base = count / world.world_size, extra = count % world.world_size;
  const auto micro_batches = [&](int64_t rows) {
    return (rows + micro_batch_size - 1) / micro_batch_size;
  };
  RankShare share;
  share.first = world.rank * base + std::min(world.rank, extra);
  share.rows = base + (world.rank < extra ? 1 : 0);
  share.padding_row = micro_batches(share.rows) < micro_batches(base + (extra > 0 ? 1 : 0));
  return share;
}

HostRows read_rows(const Dataset& dataset, const std::vector<int64_t>& samples, bool padding_row,
                   int64_t length, Device& device) {
  const auto read = static_cast<int64_t>(samples.size());
  const int64_t rows = read + (padding_row ? 1 : 0);
  const int64_t targets_per_row = dataset.targets_per_sequence() ? 1 : length;
  at::Tensor tokens_bt = at::empty({rows, length}, at::kLong);
  at::Tensor targets = dataset.targets_per_sequence() ? at::empty({rows}, at::kLong)
                                                      : at::empty({rows, length}, at::kLong);
  auto* tokens = tokens_bt.mutable_data_ptr<int64_t>();
  auto* labels = targets.mutable_data_ptr<int64_t>();
  for (const int64_t sample : samples) {
    dataset.read(sample, tokens, labels);
    tokens += length;
    labels += targets_per_row;
  }
  if (padding_row) {
    std::fill_n(tokens, length, 0);
    std::fill_n(labels, targets_per_row, kIgnoreIndex);
  }
  return {device.pin(tokens_bt), device.pin(targets)};
}

std::vector<MicroBatch> to_micro_batches(const HostRows& rows, int64_t micro_batch_size,
                                         Device& device) {
  const at::Tensor tokens_bt = device.to_device(rows.tokens_bt);
  const at::Tensor targets = device.to_device(rows.targets);
  // A view costs a small model's step a measurable part; most steps are one micro-batch.
  if (tokens_bt.size(0) <= micro_batch_size) return {{tokens_bt, targets}};
  std::vector<MicroBatch> micro_batches;
  for (int64_t begin = 0; begin < tokens_bt.size(0); begin += micro_batch_size) {
    const int64_t count = std::min(micro_batch_size, tokens_bt.size(0) - begin);
    micro_batches.push_back({tokens_bt.narrow(0, begin, count), targets.narrow(0, begin, count)});
  }
  return micro_batches;
}

}  // namespace trainctl
