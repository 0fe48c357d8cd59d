// The figures in LibTorch's words about exhausted memory. They are all that can be had safely: by
// the time an error is caught, its tensors have been let go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl {

struct OutOfMemoryFigures {  // bytes, where the text has them
  bool gpu = false;
  std::optional<uint64_t> asked, total, free;
  std::optional<uint64_t> process;  // what this process holds of a GPU, CUDA's own part included
  std::optional<uint64_t> tensors;  // in tensors
  std::optional<uint64_t> unallocated;               // reserved from the GPU and in no tensor
  std::vector<std::pair<int64_t, uint64_t>> others;  // process number, bytes
};

// Nothing where the text is about something else.
std::optional<OutOfMemoryFigures> parse_out_of_memory(std::string_view text);

// What our own allocator says when the system gives no more: ATen's words, and what tensors hold.
std::string cpu_out_of_memory_text(uint64_t asked, uint64_t tensors);

}  // namespace trainctl
