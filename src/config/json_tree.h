// A JSON text as a tree that remembers where everything stood, for messages that name the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

enum class JsonKind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

struct JsonMember;

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;        // a string's value, or a number as it was written
  bool too_large = false;  // an integer beyond 64 bits
  std::vector<JsonNode> items;
  std::vector<JsonMember> members;
  int64_t line = 0;
  int source = 0;  // 0: the file; n: the n-th --set

  JsonMember* find(std::string_view key);
  const JsonMember* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  int64_t line = 0;
  int source = 0;
  JsonNode value;
};

// One thing wrong with a text. Line and column count from 1 (0: the text as a whole).
struct JsonProblem {
  int64_t line = 0;
  int64_t column = 0;
  std::string key_path;  // of a duplicate key
  std::string text;
};

struct JsonResult {
  JsonNode root;
  std::vector<JsonProblem> problems;
  bool complete = false;  // the tree is whole; duplicate keys leave it so, with the first one kept
};

// Strict JSON (RFC 8259) in UTF-8, with // and /* */ comments; a byte order mark is dropped.
JsonResult parse_json(std::string_view text);

// How a value is named in messages: "a string", "the number 2.5", "true".
std::string describe(const JsonNode& node);

// What is wrong, in plain words; `reason` is the parser's own account, `open_lines` the lines on
// which the objects and arrays still open began. `offset` is how far the parser had read, and
// becomes where the culprit stands.
std::string explain_syntax_error(std::string_view text, size_t& offset, const std::string& reason,
                                 const std::vector<int64_t>& open_lines);

}  // namespace trainctl
