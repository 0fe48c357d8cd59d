// UTF-8 as the Unicode Standard (section 3.9, table 3-7) defines it: no overlong forms, no
// surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl {

// Byte offset of the first sequence that is not valid.
std::optional<size_t> find_invalid_utf8(std::string_view bytes);

// Each maximal ill-formed part becomes one U+FFFD, as in Python's errors="replace" and web
// browsers.
std::string replace_invalid_utf8(std::string_view bytes);

// For words of a command line, which travel on as JSON. Throws usage_error naming `word`.
void require_utf8(const std::string& word);

// For showing what a model wrote: control characters other than line feed and tab become visible
// symbols (U+2400 …; C1 controls U+FFFD), so that random bytes cannot drive a terminal. `utf8` must
// be valid.
std::string show_controls(std::string_view utf8);

}  // namespace trainctl
