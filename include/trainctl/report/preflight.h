// What `trainctl doctor --preflight` has measured: one figure per step and rank, who is slow, and
// how that is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

struct PreflightFigure {
  std::string step;  // "matmul bf16"
  std::string unit;  // "GFLOP/s"
  bool more_is_better = true;
  std::optional<double> value;
  std::string note;     // why there is no value, or what was measured
  bool failed = false;  // a run would fail of it, too
};

struct PreflightRank {
  int64_t rank = 0;
  std::string host, device;
  std::vector<PreflightFigure> figures;
};

nlohmann::ordered_json to_json(const PreflightRank& rank);
PreflightRank preflight_rank_from_json(const nlohmann::ordered_json& json);

// A rank whose figure is worse than 80 % of the median of all.
struct SlowRank {
  int64_t rank = 0;
  std::string host, step, unit;
  double value = 0, median = 0;
  double speed = 0;  // of the median's: below 0.8
};
std::vector<SlowRank> slow_ranks(const std::vector<PreflightRank>& ranks);

// Some step has failed somewhere.
bool any_failed(const std::vector<PreflightRank>& ranks);

std::string format_preflight(const std::vector<PreflightRank>& ranks);
nlohmann::ordered_json preflight_to_json(const std::vector<PreflightRank>& ranks);

}  // namespace trainctl
