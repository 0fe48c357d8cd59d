// Any bytes as a safetensors file. The parser either refuses them with HeaderError or returns a
// header on which a reader can rely; it allocates no more than the bytes that are there justify.
//
// With clang: a libFuzzer program. Elsewhere mutate_main.cpp drives it with deterministic
// mutations.
#include <cstdlib>
#include <limits>
#include <map>
#include <new>

#include "checkpoint/safetensors_header.h"

namespace {

uint64_t allocated = 0;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check_header(const trainctl::SafetensorsHeader& header, size_t file_size) {
  require(header.data_start >= 10 && header.data_start <= file_size);
  std::map<uint64_t, uint64_t> spans;  // of tensors that hold anything
  uint64_t total = 0;
  for (const auto& [name, tensor] : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= file_size - header.data_start);
    unsigned __int128 bytes = trainctl::stored_type_size(tensor.type);
    for (const int64_t dimension : tensor.shape) {
      require(dimension >= 0);
      bytes *= static_cast<uint64_t>(dimension);
      require(bytes <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    }
    require(bytes == tensor.end - tensor.begin);
    if (bytes != 0) {
      require(spans.emplace(tensor.begin, tensor.end).second);
      total += static_cast<uint64_t>(bytes);
    }
  }
  uint64_t covered = 0;
  for (const auto& [begin, end] : spans) {
    require(begin == covered);
    covered = end;
  }
  require(total == covered && total == file_size - header.data_start);
}

}  // namespace

void* operator new(std::size_t size) {
  allocated += size;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {  // libFuzzer's own
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  allocated = 0;
  try {
    const auto header =
        trainctl::parse_safetensors_header(std::as_bytes(std::span<const uint8_t>(data, size)));
    require(allocated <= 65536 + 256 * header.data_start);
    check_header(header, size);
  } catch (const trainctl::HeaderError&) {
    require(allocated <= 65536 + 256 * size);
  }
  return 0;
}
