// JSON syntax errors in plain words. The parser knows only what token it expected; people make a
// dozen typical mistakes, and each has its own cure.
#include <algorithm>
#include <cctype>

#include "config/json_tree.h"

namespace trainctl {
namespace {

// The token at which reading failed, and the one before it. Comments and space are none.
struct Surroundings {
  size_t token_at = 0;
  char previous = '\0';  // first character of the one before; '\0': none
  size_t previous_at = 0;
};

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_' || c == '+' || c == '-' || c == '.';
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t comment_end(std::string_view text, size_t begin) {
  if (text.substr(begin, 2) == "//")
    return std::min(text.find_first_of("\n\r", begin), text.size());
  if (text.substr(begin, 2) != "/*") return begin;
  const size_t close = text.find("*/", begin + 2);
  return close == std::string_view::npos ? text.size() : close + 2;
}

size_t token_end(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  if (text[begin] == '"') {
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }
  while (is_word(text[begin]) && end < text.size() && is_word(text[end])) ++end;
  return end;
}

// Scans from the start, so that strings and comments are told from the rest: the last token that
// begins before `end`.
Surroundings surroundings(std::string_view text, size_t end) {
  Surroundings found;
  bool any = false;
  for (size_t i = 0; i < end;) {
    if (const size_t after = comment_end(text, i); is_space(text[i]) || after > i) {
      i = std::max(after, i + 1);
      continue;
    }
    if (any) {
      found.previous = text[found.token_at];
      found.previous_at = found.token_at;
    }
    found.token_at = i;
    any = true;
    i = token_end(text, i);
  }
  return found;
}

std::string word_at(std::string_view text, size_t offset) {
  size_t end = offset;
  while (end < text.size() && end - offset < 40 && is_word(text[end])) ++end;
  return std::string(text.substr(offset, end - offset));
}

// Values that other languages write and JSON does not.
std::string explain_word(const std::string& word) {
  std::string lower = word;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string bare = lower.substr(lower.find_first_not_of("+-") == std::string::npos
                                            ? lower.size()
                                            : lower.find_first_not_of("+-"));
  if (bare == "nan" || bare == "inf" || bare == "infinity") {
    return word + " is not a JSON number; a finite number is needed";
  }
  if (lower == "true" || lower == "yes" || lower == "on") return word + ": write true";
  if (lower == "false" || lower == "no" || lower == "off") return word + ": write false";
  if (lower == "none" || lower == "null" || lower == "nil") {
    return word + ": leave the key out to get its default";
  }
  if (!bare.empty() && bare[0] == '.') return word + ": write a digit before the decimal point";
  if (lower.size() > 1 && lower[0] == '+') return word + ": write the number without '+'";
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::string explain_string(const std::string& reason) {
  if (contains(reason, "missing closing quote") || contains(reason, "must be escaped to \\u000A") ||
      contains(reason, "must be escaped to \\u000D")) {
    return "a string is not closed: '\"' is missing before the end of the line";
  }
  if (contains(reason, "backslash")) {
    return "a backslash in a string begins an escape such as \\n; for the character itself write "
           "\\\\";
  }
  if (contains(reason, "\\u") && contains(reason, "control character")) {
    return "a control character in a string must be written as an escape, such as \\t";
  }
  if (contains(reason, "surrogate") || contains(reason, "4 hex digits")) {
    return "\\u needs four hexadecimal digits, and surrogates come in pairs (\\uD83D\\uDE00)";
  }
  return "";
}

std::string explain_end(const std::vector<int64_t>& open_lines) {
  if (open_lines.empty()) return "the file holds no config: it is empty or has only comments";
  return "the file ends too early: the object or array begun on line " +
         std::to_string(open_lines.back()) + " is not closed";
}

std::string explain_punctuation(char token, const Surroundings& before, size_t& offset) {
  if ((token == '}' || token == ']') && before.previous == ',') {
    offset = before.previous_at;
    return std::string("a comma before '") + token + "'; JSON allows none there, remove it";
  }
  if (token == '\'') return "strings need double quotes: write \"…\" instead of '…'";
  if (token == '#') return "'#' begins no comment here; comments begin with // or stand in /* */";
  if (token == '=') return "write ':' between a key and its value, not '='";
  if (token == ';') return "';' has no place in JSON; members are separated by ','";
  if (token == ',' && (before.previous == ',' || before.previous == '{' || before.previous == '[' ||
                       before.previous == ':')) {
    return "a value is missing before ','";
  }
  if ((token == '}' || token == ']') && before.previous == ':') {
    return std::string("a value is missing before '") + token + "'";
  }
  return "";
}

}  // namespace

std::string explain_syntax_error(std::string_view text, size_t& offset, const std::string& reason,
                                 const std::vector<int64_t>& open_lines) {
  if (contains(reason, "invalid comment")) {
    const size_t open = text.rfind('/', offset - 1);
    const size_t block = text.rfind("/*", offset - 1);
    const bool unclosed = block != std::string_view::npos;
    offset = unclosed ? block : open;
    return unclosed ? "a comment /* … is not closed by */"
                    : "a lone '/'; comments begin with // or stand in /* */";
  }
  if (contains(reason, "unexpected end of input")) {
    offset = text.size();
    return explain_end(open_lines);
  }
  // A number is known to be over only by the character after it.
  const bool read_past = contains(reason, "number") && offset > 0 && !is_word(text[offset - 1]);
  const Surroundings here = surroundings(text, offset - (read_past ? 1 : 0));
  offset = here.token_at;
  const std::string word = word_at(text, offset);
  if (contains(reason, "number overflow")) {
    return word + " is beyond what a 64-bit floating-point number holds";
  }
  if (contains(reason, "invalid string")) {
    std::string words = explain_string(reason);
    if (!words.empty()) return words;
  }
  if (contains(reason, "; expected end of input")) {
    return "there is more text after the end of the config; one JSON object is expected";
  }
  const char token = text[offset];
  std::string words = explain_punctuation(token, here, offset);
  if (!words.empty()) return words;
  if (contains(reason, "object separator")) return "':' is missing after a key";
  const size_t digit = word.starts_with("-") ? 1 : 0;
  if (word.size() > digit + 1 && word[digit] == '0' &&
      std::isdigit(static_cast<unsigned char>(word[digit + 1])) != 0) {
    return word + ": a number must not begin with a zero that other digits follow";
  }
  if (contains(reason, "object key") || here.previous == '{') {
    if (word.empty()) return "a key in double quotes is expected here";
    return "a key needs double quotes: write \"" + word + "\"";
  }
  if (here.previous == '"' || here.previous == '}' || here.previous == ']' ||
      is_word(here.previous)) {
    return "a comma is missing before this";
  }
  words = explain_word(word);
  if (!words.empty()) return words;
  if (!word.empty()) return word + " is not a JSON value; text needs double quotes";
  return std::string("unexpected '") + token + "'";
}

}  // namespace trainctl
