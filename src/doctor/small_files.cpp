#include "doctor/small_files.h"

#include <charconv>
#include <fstream>

namespace trainctl::doctor {

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string first_line_of(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::map<std::string, std::string> key_values(const fs::path& path, char between) {
  std::map<std::string, std::string> values;
  for (const std::string& line : lines_of(path)) {
    const size_t at = line.find(between);
    if (at == std::string::npos) continue;
    values.emplace(trimmed(line.substr(0, at)), trimmed(line.substr(at + 1)));
  }
  return values;
}

std::optional<int64_t> number_in(const std::string& text) {
  const std::string number = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace trainctl::doctor
