// Which rank holds up the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "trainctl/report/records.h"

namespace trainctl {

class Stragglers {
 public:
  // What each rank worked in a step, without waiting for others.
  void add(const std::vector<double>& seconds) {
    sums_.resize(seconds.size());
    std::transform(sums_.begin(), sums_.end(), seconds.begin(), sums_.begin(), std::plus<>());
  }

  // Into the record, and begins anew.
  void report(StepRecord* record) {
    const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
    if (total > 0) {
      const auto slowest = std::max_element(sums_.begin(), sums_.end());
      record->slowest_rank = slowest - sums_.begin();
      record->slowest_rank_ratio = *slowest * static_cast<double>(sums_.size()) / total;
    }
    sums_.clear();
  }

 private:
  std::vector<double> sums_;
};

}  // namespace trainctl
