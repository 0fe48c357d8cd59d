#include "config/report.h"

#include <algorithm>
#include <tuple>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {
constexpr size_t kShown = 50;  // a wholly wrong file need not fill the screen
}

void ProblemReport::add(const Place& place, const std::string& key_path, const std::string& text) {
  wrong_keys_.insert(key_path);
  problems_.push_back({place, key_path.empty() ? text : key_path + ": " + text});
}

bool ProblemReport::has(const std::string& key_path) const {
  for (size_t end = key_path.size(); end != std::string::npos && end > 0;
       end = key_path.rfind('.', end - 1)) {
    if (wrong_keys_.contains(key_path.substr(0, end))) return true;
  }
  return false;
}

bool ProblemReport::touches(const std::string& section) const {
  if (wrong_keys_.contains(section)) return true;
  const auto first = wrong_keys_.lower_bound(section + ".");
  return first != wrong_keys_.end() && first->starts_with(section + ".");
}

std::string ProblemReport::where(const Place& place) const {
  if (place.source > 0) return "--set";
  std::string text = file_name_;
  if (place.line > 0) text.append(":").append(std::to_string(place.line));
  if (place.column > 0) text.append(":").append(std::to_string(place.column));
  return text;
}

void ProblemReport::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.place.source, a.place.line) < std::tie(b.place.source, b.place.line);
  });
  if (sorted.size() == 1) throw usage_error(where(sorted[0].place) + ": " + sorted[0].text);
  std::string message = std::to_string(sorted.size()) + " problems in the config:";
  for (size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    message += "\n  " + where(sorted[i].place) + ": " + sorted[i].text;
  }
  if (sorted.size() > kShown) {
    message.append("\n  … and ").append(std::to_string(sorted.size() - kShown)).append(" more");
  }
  throw usage_error(message);
}

}  // namespace trainctl
