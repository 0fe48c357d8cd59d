// JSON syntax errors in plain words. The parser knows only what token it expected; people make a
// dozen typical mistakes, and each has its own cure.
#include <algorithm>
#include <cctype>

#include "config/json_tree.h"

namespace trainctl {
namespace {

struct Surroundings {
  char previous = '\0';  // last significant character before the offset; '\0': none
  size_t previous_at = 0;
};

// Scans from the start, so that strings and comments are told from the rest.
Surroundings surroundings(std::string_view text, size_t offset) {
  Surroundings found;
  const size_t end = std::min(offset, text.size());
  for (size_t i = 0; i < end; ++i) {
    const char c = text[i];
    if (c == '/' && i + 1 < end && (text[i + 1] == '/' || text[i + 1] == '*')) {
      const bool line = text[i + 1] == '/';
      i += 2;
      while (i < end &&
             (line ? text[i] != '\n' && text[i] != '\r' : text[i] != '/' || text[i - 1] != '*')) {
        ++i;
      }
      continue;
    }
    if (c == '"') {
      for (++i; i < end && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      found = {'"', std::min(i, end - 1)};
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      found = {c, i};
    }
  }
  return found;
}

std::string word_at(std::string_view text, size_t offset) {
  size_t end = offset;
  while (end < text.size() && end - offset < 40 &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
          std::string_view("_+-.").find(text[end]) != std::string_view::npos)) {
    ++end;
  }
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
  if (contains(reason, "number overflow")) {
    return word_at(text, offset) + " is beyond what a 64-bit floating-point number holds";
  }
  if (contains(reason, "invalid comment")) return "a comment /* … is not closed by */";
  if (contains(reason, "invalid string")) {
    const std::string words = explain_string(reason);
    if (!words.empty()) return words;
  }
  const Surroundings before = surroundings(text, offset);
  if (contains(reason, "expected end of input")) {
    return "there is more text after the end of the config; one JSON object is expected";
  }
  if (offset >= text.size() || contains(reason, "unexpected end of input")) {
    return explain_end(open_lines);
  }
  const char token = text[offset];
  std::string words = explain_punctuation(token, before, offset);
  if (!words.empty()) return words;

  const std::string word = word_at(text, offset);
  const bool after_value = before.previous == '"' || before.previous == '}' ||
                           before.previous == ']' ||
                           std::isalnum(static_cast<unsigned char>(before.previous)) != 0;
  if (contains(reason, "object separator")) return "':' is missing after a key";
  if (contains(reason, "while parsing object key") || before.previous == '{') {
    if (word.empty()) return "a key in double quotes is expected here";
    return "a key needs double quotes: write \"" + word + "\"";
  }
  if (after_value && before.previous != ':') {
    if (before.previous == '0' && before.previous_at + 1 == offset &&
        std::isalnum(static_cast<unsigned char>(token)) != 0) {
      return "a number must not begin with a zero that other digits follow";
    }
    return "a comma is missing before this";
  }
  words = explain_word(word);
  if (!words.empty()) return words;
  if (!word.empty()) return word + " is not a JSON value; text needs double quotes";
  return std::string("unexpected '") + token + "'";
}

}  // namespace trainctl
