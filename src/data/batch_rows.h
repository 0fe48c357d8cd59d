// How the samples of a step fall to ranks and micro-batches, and their rows in tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "trainctl/data/data.h"

namespace trainctl {

// A rank's part of a step of `count` samples: a contiguous run, the first ranks taking one more
// where it does not divide.
struct RankShare {
  int64_t first = 0, rows = 0;
  // One row of ignored targets where other ranks have a micro-batch more, so that every rank runs
  // equally many and their collective operations meet.
  bool padding_row = false;
};
RankShare share_of_step(int64_t count, int64_t micro_batch_size, const WorldShape& world);

// Legend of tensor suffixes: b rows, t tokens of a row.
struct HostRows {
  at::Tensor tokens_bt;
  at::Tensor targets;  // [b, t], or [b] when targets are per sequence
};

// The samples, all of `length` tokens, and after them the padding row. Safe on any thread.
HostRows read_rows(const Dataset& dataset, const std::vector<int64_t>& samples, bool padding_row,
                   int64_t length, Device& device);

// Copies to the device, on the calling thread's stream, and cuts into micro-batches (views).
std::vector<MicroBatch> to_micro_batches(const HostRows& rows, int64_t micro_batch_size,
                                         Device& device);

}  // namespace trainctl
