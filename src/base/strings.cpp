#include "trainctl/base/strings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace trainctl {
namespace {

// Optimal string alignment distance: insertions, deletions, substitutions and adjacent
// transpositions.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

std::string printf_double(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, std::max<size_t>(word.size(), 3) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return printf_double(unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "B", "T"};
  size_t unit = 0;
  while (std::abs(count) >= 1000 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  return printf_double(unit == 0 ? "%.0f%s" : "%.3g%s", count, kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  char buffer[64];
  if (seconds < 10) {
    std::snprintf(buffer, sizeof buffer, "%.1fs", seconds);
    return buffer;
  }
  const auto total = static_cast<long long>(std::llround(seconds));
  const long long hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) {
    std::snprintf(buffer, sizeof buffer, "%lldh %02lldm %02llds", hours, minutes, rest);
  } else if (minutes > 0) {
    std::snprintf(buffer, sizeof buffer, "%lldm %02llds", minutes, rest);
  } else {
    std::snprintf(buffer, sizeof buffer, "%llds", rest);
  }
  return buffer;
}

}  // namespace trainctl
