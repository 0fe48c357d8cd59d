// How wide text stands in a terminal.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace trainctl {

// Code points of UTF-8. Our own texts have no wide or combining characters.
inline size_t display_columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

inline std::string pad_left(std::string text, size_t columns) {
  const size_t have = display_columns(text);
  return have < columns ? std::string(columns - have, ' ') + text : text;
}

}  // namespace trainctl
