// Slurm's two compact notations.
#include <charconv>
#include <string_view>

#include "trainctl/base/error.h"
#include "trainctl/launch/slurm.h"

namespace trainctl {
namespace {

constexpr size_t kMostNodes = 65536;  // Slurm's own limit for one list

[[noreturn]] void refuse(const std::string& source, const std::string& text,
                         const std::string& problem) {
  throw usage_error("the environment variable " + source + " is '" + text + "': " + problem);
}

bool all_digits(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!all_digits(text) || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::string padded(int64_t value, size_t width) {
  const std::string digits = std::to_string(value);
  return digits.size() >= width ? digits : std::string(width - digits.size(), '0') + digits;
}

// Reads a node list from left to right.
class NodeListParser {
 public:
  NodeListParser(const std::string& text, const std::string& source)
      : text_(text), source_(source) {}

  std::vector<std::string> parse() {
    std::vector<std::string> nodes;
    do {
      for (std::string& node : parse_item()) nodes.push_back(std::move(node));
      limit(nodes.size());
    } while (take(','));
    if (at_ != text_.size()) refuse(source_, text_, "a ']' without its '['");
    return nodes;
  }

 private:
  // A name with any number of bracketed parts: all combinations, the last part running fastest.
  std::vector<std::string> parse_item() {
    std::vector<std::string> names = {""};
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']') {
      const std::vector<std::string> parts =
          take('[') ? parse_bracket() : std::vector<std::string>{parse_plain()};
      limit(names.size() * parts.size());
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& part : parts) longer.push_back(name + part);
      }
      names = std::move(longer);
    }
    if (names.front().empty()) refuse(source_, text_, "a node's name is missing");
    return names;
  }

  std::string parse_plain() {
    const size_t end = std::min(text_.find_first_of(",[]", at_), text_.size());
    const std::string plain = text_.substr(at_, end - at_);
    at_ = end;
    return plain;
  }

  std::vector<std::string> parse_bracket() {
    const size_t end = text_.find(']', at_);
    if (end == std::string::npos) refuse(source_, text_, "the ']' of a '[' is missing");
    std::vector<std::string> parts;
    while (at_ <= end) {
      const size_t comma = std::min(text_.find(',', at_), end);
      add_range(std::string_view(text_).substr(at_, comma - at_), &parts);
      at_ = comma + 1;
    }
    return parts;
  }

  void add_range(std::string_view range, std::vector<std::string>* parts) {
    const size_t dash = range.find('-');
    const std::string_view low_text = range.substr(0, dash);
    const auto low = number_of(low_text);
    const auto high = dash == std::string_view::npos ? low : number_of(range.substr(dash + 1));
    if (!low || !high || *high < *low) {
      refuse(source_, text_,
             "'" + std::string(range) + "' is neither a number nor a range of numbers");
    }
    limit(static_cast<uint64_t>(*high - *low) + 1 + parts->size());
    for (int64_t value = *low; value <= *high; ++value)
      parts->push_back(padded(value, low_text.size()));
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void limit(uint64_t count) {
    if (count > kMostNodes) refuse(source_, text_, "it names more than 65536 nodes");
  }

  const std::string& text_;
  const std::string& source_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> parse_node_list(const std::string& text, const std::string& source) {
  return NodeListParser(text, source).parse();
}

std::vector<int64_t> parse_tasks_per_node(const std::string& text, const std::string& source) {
  std::vector<int64_t> tasks;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string_view item = std::string_view(text).substr(at, comma - at);
    at = comma + 1;
    int64_t times = 1;
    if (const size_t open = item.find("(x");
        open != std::string_view::npos && item.ends_with(')')) {
      times = number_of(item.substr(open + 2, item.size() - open - 3)).value_or(0);
      item = item.substr(0, open);
    }
    const auto count = number_of(item);
    if (!count || times < 1 || tasks.size() + static_cast<size_t>(times) > kMostNodes) {
      refuse(source, text, "it is no list of numbers like 2(x3),1");
    }
    tasks.insert(tasks.end(), static_cast<size_t>(times), *count);
  }
  return tasks;
}

}  // namespace trainctl
