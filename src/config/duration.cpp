#include "config/duration.h"

#include <charconv>
#include <cmath>

namespace trainctl {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr Unit kUnits[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    if (text[0] != '.' && (text[0] < '0' || text[0] > '9')) return std::nullopt;
    double amount = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits) {
      if (text.starts_with(candidate.name)) unit = &candidate;
    }
    if (unit == nullptr) return std::nullopt;
    text.remove_prefix(unit->name.size());
    total += amount * unit->seconds;
  }
  if (!std::isfinite(total)) return std::nullopt;
  return total;
}

std::string format_duration(double seconds) {
  for (const Unit& unit : kUnits) {
    const double amount = seconds / unit.seconds;
    if (amount >= 1 && amount < 1e6 && amount == std::floor(amount) &&
        amount * unit.seconds == seconds) {
      return std::to_string(static_cast<int64_t>(amount)) + std::string(unit.name);
    }
  }
  char digits[64];
  const auto written = std::to_chars(digits, digits + sizeof digits, seconds);
  return std::string(digits, written.ptr) + "s";
}

}  // namespace trainctl
