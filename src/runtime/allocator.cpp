#include "runtime/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "trainctl/base/out_of_memory.h"

namespace trainctl {
namespace {

constexpr size_t kHeader = 64;  // before the data, which stays aligned for any instruction
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlwaysKept = size_t{64} << 20;

// Sizes in steps of an eighth of a power of two: a block is at most 12.5 % larger than asked.
constexpr size_t kStepsPerDoubling = 8;
constexpr size_t kSmallestClass = 256;
constexpr size_t kClasses = 56 * kStepsPerDoubling;

struct SizeClass {
  size_t index, bytes;
};

SizeClass class_of(size_t bytes) {
  bytes = std::max(bytes, kSmallestClass);
  const size_t doubling = static_cast<size_t>(std::bit_width(bytes) - 1);
  const size_t step = (size_t{1} << doubling) / kStepsPerDoubling;
  const size_t steps = (bytes + step - 1) / step;  // 8 … 16
  const size_t doublings = doubling - 8;           // above kSmallestClass
  return {doublings * kStepsPerDoubling + steps - kStepsPerDoubling, steps * step};
}

struct Header {
  size_t bytes;  // of the block, with the header
  size_t class_index;
};

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &CachingAllocator::give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CachingAllocator::give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  CpuAllocatorStats stats() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

  void release_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    release_all_locked();
  }

  static CachingAllocator& instance() {
    static CachingAllocator* const allocator = new CachingAllocator;  // outlives every tensor
    return *allocator;
  }

 private:
  void* take(size_t bytes) {
    const SizeClass size = class_of(bytes + kHeader);
    const std::lock_guard<std::mutex> lock(mutex_);
    Header* block = take_cached(size);
    if (block == nullptr) {
      release_if_hoarding(size.bytes);
      block = from_system(size.bytes);
      if (block == nullptr) {  // what is kept for later ones may be what is missing
        release_all_locked();
        block = from_system(size.bytes);
      }
      // ATen's own words, which its callers and ours know, and what is known here alone.
      TORCH_CHECK(block != nullptr, cpu_out_of_memory_text(size.bytes, stats_.live));
      block->bytes = size.bytes;
      block->class_index = size.index;
      ++stats_.from_system;
    }
    stats_.live += block->bytes;
    return reinterpret_cast<char*>(block) + kHeader;
  }

  Header* take_cached(const SizeClass& size) {
    // Two classes up is at most a quarter more.
    for (size_t index = size.index; index < std::min(size.index + 3, kClasses); ++index) {
      std::vector<Header*>& blocks = free_[index];
      if (blocks.empty()) continue;
      Header* block = blocks.back();
      blocks.pop_back();
      stats_.cached -= block->bytes;
      return block;
    }
    return nullptr;
  }

  static void give_back(void* data) {
    if (data == nullptr) return;
    CachingAllocator& self = instance();
    auto* block = reinterpret_cast<Header*>(static_cast<char*>(data) - kHeader);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    self.stats_.live -= block->bytes;
    self.stats_.cached += block->bytes;
    self.free_[block->class_index].push_back(block);
  }

  // A miss while much is kept means that the sizes have changed (another batch shape, a longer
  // prompt): what was kept is of little use, and peak memory counts.
  void release_if_hoarding(size_t bytes) {
    if (stats_.cached + bytes > stats_.live / 2 + kAlwaysKept) release_all_locked();
  }

  void release_all_locked() {
    for (std::vector<Header*>& blocks : free_) {
      for (Header* block : blocks) to_system(block);
      blocks.clear();
    }
    stats_.cached = 0;
  }

  // Null where it gives no more.
  static Header* from_system(size_t bytes) {
    void* memory = nullptr;
    if (bytes < kHugePage) {
      if (::posix_memalign(&memory, kHeader, bytes) != 0) memory = nullptr;
    } else {
      memory = map_aligned(bytes);
    }
    return static_cast<Header*>(memory);
  }

  // At a multiple of the huge page, or the kernel could not use one for the ends.
  static void* map_aligned(size_t bytes) {
    const size_t length = bytes + kHugePage;
    void* map = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    auto* start = static_cast<char*>(map);
    const size_t front = (kHugePage - reinterpret_cast<uintptr_t>(map) % kHugePage) % kHugePage;
    if (front > 0) ::munmap(start, front);
    const size_t page = 4096, used = (bytes + page - 1) / page * page;
    if (length - front > used) ::munmap(start + front + used, length - front - used);
    ::madvise(start + front, used, MADV_HUGEPAGE);  // where huge pages are off, plain ones serve
    return start + front;
  }

  static void to_system(Header* block) {
    if (block->bytes < kHugePage) {
      std::free(block);
    } else {
      ::munmap(block, (block->bytes + 4095) / 4096 * 4096);
    }
  }

  std::mutex mutex_;
  std::array<std::vector<Header*>, kClasses> free_;
  CpuAllocatorStats stats_;
};

}  // namespace

void install_cpu_allocator() {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&CachingAllocator::instance(), /*priority=*/1); });
}

CpuAllocatorStats cpu_allocator_stats() { return CachingAllocator::instance().stats(); }

void release_cached_cpu_memory() { CachingAllocator::instance().release_all(); }

}  // namespace trainctl
