#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

// The candidate with the smallest edit distance (adjacent transpositions count one), if it is near
// enough to be what was meant (at most a third of the letters wrong).
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string counted(int64_t count, const std::string& noun);  // "1 rank", "2 ranks"
std::string human_bytes(uint64_t bytes);                      // "1.5 GiB"
std::string human_count(double count);                        // "12.3M"
std::string human_duration(double seconds);                   // "1h 02m 03s"

}  // namespace trainctl
