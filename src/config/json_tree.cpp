#include "config/json_tree.h"

#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace trainctl {
namespace {

// Deeper than any config; bounds the recursion of everything that walks the tree.
constexpr size_t kMaxDepth = 32;

// Tells how far the parser has read: nlohmann's SAX events carry no positions of their own.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* consumed_;
};

// Line of ever larger offsets. LF, CR LF and a lone CR end a line.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}

  int64_t line_at(size_t offset) {
    for (; next_ < offset && next_ < text_.size(); ++next_) {
      const char c = text_[next_];
      const bool crlf = c == '\r' && next_ + 1 < text_.size() && text_[next_ + 1] == '\n';
      if (c == '\n' || (c == '\r' && !crlf)) {
        ++line_;
        line_begin_ = next_ + 1;
      }
    }
    return line_;
  }
  int64_t column_at(size_t offset) {
    line_at(offset);
    return static_cast<int64_t>(offset - line_begin_) + 1;
  }

 private:
  std::string_view text_;
  size_t next_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
};

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const size_t* consumed, JsonResult* result)
      : text_(text), consumed_(consumed), lines_(text), result_(result) {}

  bool null() override { return add(node(JsonKind::kNull)); }
  bool boolean(bool value) override {
    JsonNode n = node(JsonKind::kBool);
    n.boolean = value;
    return add(std::move(n));
  }
  bool number_integer(number_integer_t value) override { return add_integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<uint64_t>(INT64_MAX)) return add_integer(static_cast<int64_t>(value));
    return add_huge_integer(std::to_string(value));
  }
  bool number_float(number_float_t value, const std::string& written) override {
    // The parser turns an integer beyond 64 bits into a float; it is still one to the user.
    if (written.find_first_of(".eE") == std::string::npos) return add_huge_integer(written);
    JsonNode n = number_node(JsonKind::kNumber);
    n.number = value;
    n.text = written;
    return add(std::move(n));
  }
  bool string(std::string& value) override {
    JsonNode n = node(JsonKind::kString);
    n.text = std::move(value);
    return add(std::move(n));
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // not in JSON texts
  bool start_object(std::size_t) override { return open(JsonKind::kObject); }
  bool start_array(std::size_t) override { return open(JsonKind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    level.key = name;
    level.key_line = lines_.line_at(*consumed_);
    const auto [seen, fresh] = level.seen.emplace(name, level.key_line);
    level.duplicate = !fresh;
    if (!fresh) {
      result_->problems.push_back({level.key_line, 0, path_of(name),
                                   "given twice, the first time on line " +
                                       std::to_string(seen->second) + "; remove one of them"});
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    std::vector<int64_t> open_lines;
    for (const Level& level : levels_) open_lines.push_back(level.node.line);
    size_t offset = *consumed_;
    const std::string words = explain_syntax_error(text_, offset, error.what(), open_lines);
    fail(offset, words);
    return false;
  }

 private:
  struct Level {
    JsonNode node;
    std::string key;  // of the member now being read
    int64_t key_line = 0;
    bool duplicate = false;
    std::map<std::string, int64_t> seen;
  };

  void fail(size_t offset, const std::string& words) {
    LineCounter fresh(text_);  // the culprit may stand before what was read last
    const int64_t line = fresh.line_at(offset);
    result_->problems.push_back({line, fresh.column_at(offset), "", words});
  }

  JsonNode node(JsonKind kind) {
    JsonNode n;
    n.kind = kind;
    n.line = lines_.line_at(*consumed_);
    return n;
  }

  // The parser has read one character past a number (which is never a digit), maybe a line end.
  JsonNode number_node(JsonKind kind) {
    size_t end = *consumed_;
    if (end > 0 && (text_[end - 1] < '0' || text_[end - 1] > '9')) --end;
    JsonNode n;
    n.kind = kind;
    n.line = lines_.line_at(end);
    return n;
  }

  bool add_integer(int64_t value) {
    JsonNode n = number_node(JsonKind::kInteger);
    n.integer = value;
    n.number = static_cast<double>(value);
    n.text = std::to_string(value);
    return add(std::move(n));
  }

  bool add_huge_integer(const std::string& written) {
    JsonNode n = number_node(JsonKind::kInteger);
    n.too_large = true;
    n.number = std::strtod(written.c_str(), nullptr);
    n.text = written;
    return add(std::move(n));
  }

  bool add(JsonNode value) {
    if (levels_.empty()) {
      result_->root = std::move(value);
    } else if (Level& level = levels_.back(); level.node.kind == JsonKind::kArray) {
      level.node.items.push_back(std::move(value));
    } else if (!level.duplicate) {
      level.node.members.push_back({level.key, level.key_line, 0, std::move(value)});
    }
    return true;
  }

  bool open(JsonKind kind) {
    if (levels_.size() >= kMaxDepth) {
      fail(*consumed_ - 1, "objects and arrays are nested deeper than " +
                               std::to_string(kMaxDepth) + " levels; no config needs that");
      return false;
    }
    levels_.push_back({node(kind), "", 0, false, {}});
    return true;
  }

  bool close() {
    JsonNode done = std::move(levels_.back().node);
    levels_.pop_back();
    return add(std::move(done));
  }

  std::string path_of(const std::string& name) const {
    std::string path;
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      const JsonNode& n = levels_[i].node;
      if (n.kind == JsonKind::kArray) {
        path += "[" + std::to_string(n.items.size()) + "]";
      } else {
        path += (path.empty() ? "" : ".") + levels_[i].key;
      }
    }
    return path.empty() ? name : path + "." + name;
  }

  std::string_view text_;
  const size_t* consumed_;
  LineCounter lines_;
  JsonResult* result_;
  std::vector<Level> levels_;
};

// Length of the well-formed UTF-8 sequence at `at` (Unicode 15, table 3-7), or 0.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto within = [&](size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

// Problems of the bytes themselves. `skipped` bytes (the byte order mark) stand before `text`.
bool check_bytes(std::string_view text, size_t skipped, JsonResult* result) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length > 0 && text[at] != '\0') {
      at += length;
      continue;
    }
    LineCounter lines(text);
    const int64_t line = lines.line_at(at);
    char words[160];
    if (text[at] == '\0') {
      std::snprintf(words, sizeof words, "a NUL byte at offset %zu; a config is plain UTF-8 text",
                    at + skipped);
    } else {
      std::snprintf(words, sizeof words,
                    "byte 0x%02X at offset %zu is not valid UTF-8; save the file as UTF-8",
                    static_cast<unsigned>(static_cast<unsigned char>(text[at])), at + skipped);
    }
    result->problems.push_back({line, lines.column_at(at), "", words});
    return false;
  }
  return true;
}

}  // namespace

JsonMember* JsonNode::find(std::string_view key) {
  for (JsonMember& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

const JsonMember* JsonNode::find(std::string_view key) const {
  return const_cast<JsonNode*>(this)->find(key);
}

JsonResult parse_json(std::string_view text) {
  JsonResult result;
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    result.problems.push_back({1, 1, "", "the file is UTF-16; save it as UTF-8"});
    return result;
  }
  const size_t bom = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  text.remove_prefix(bom);
  if (!check_bytes(text, bom, &result)) return result;
  size_t consumed = 0;
  TreeBuilder builder(text, &consumed, &result);
  result.complete = nlohmann::json::sax_parse(
      CountingIterator(text.data(), &consumed),
      CountingIterator(text.data() + text.size(), &consumed), &builder,
      nlohmann::json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return result;
}

std::string describe(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return node.boolean ? "true" : "false";
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      return "the number " + node.text;
    case JsonKind::kString:
      return node.text.size() <= 40 ? "the string \"" + node.text + "\"" : "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "a value";
}

}  // namespace trainctl
