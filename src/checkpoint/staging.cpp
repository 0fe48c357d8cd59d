#include "checkpoint/staging.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainctl/base/host.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Anonymous memory in huge pages where the system gives them: a quarter of the faults' time.
at::Tensor map_memory(uint64_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return {};
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return at::from_blob(
      address, {static_cast<int64_t>(bytes)}, [bytes](void* p) { ::munmap(p, bytes); },
      at::TensorOptions(at::kByte));
}

at::Tensor pinned_memory(uint64_t bytes, std::string* why_not) {
  try {
    return at::empty({static_cast<int64_t>(bytes)},
                     at::TensorOptions(at::kByte).pinned_memory(true));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    *why_not = "no pinned memory: " + text.substr(0, text.find('\n'));
    return {};
  }
}

}  // namespace

uint64_t staging_bytes(const std::vector<TensorEntry>& tensors) {
  uint64_t total = 0;
  for (const TensorEntry& entry : tensors) total += aligned(entry.tensor.nbytes());
  return total;
}

bool StagingMemory::reserve(uint64_t bytes, std::string* why_not) {
  if (bytes == 0 || (memory_.defined() && memory_.nbytes() >= bytes)) return true;
  // The memory is touched at the first save, when a refusal would be the OOM killer's.
  const std::optional<uint64_t> available = available_memory();
  if (available && *available < bytes + bytes / 16) {
    *why_not = human_bytes(*available) + " of memory are free";
    return false;
  }
  memory_.reset();
  if (!device_.is_cpu()) {
    memory_ = pinned_memory(bytes, why_not);
  } else {
    memory_ = map_memory(bytes);
    if (!memory_.defined()) *why_not = "memory for the copy: " + std::string(std::strerror(errno));
  }
  return memory_.defined();
}

std::function<void()> StagingMemory::populate() const {
  if (!memory_.defined() || !device_.is_cpu()) return [] {};
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif
  // Where the kernel does not know it, the copy itself makes the pages.
  return [memory = memory_] { ::madvise(memory.data_ptr(), memory.nbytes(), MADV_POPULATE_WRITE); };
}

std::vector<TensorEntry> StagingMemory::copy(const std::vector<TensorEntry>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<TensorEntry> copies;
  copies.reserve(tensors.size());
  uint64_t offset = 0;
  for (const TensorEntry& entry : tensors) {
    const uint64_t bytes = entry.tensor.nbytes();
    if (bytes == 0) {
      copies.push_back({entry.name, at::empty(entry.tensor.sizes(), entry.tensor.dtype())});
      continue;
    }
    auto* to = static_cast<char*>(memory_.data_ptr()) + offset;
    const at::Tensor copy = at::from_blob(
        to, entry.tensor.sizes(), [keep = memory_](void*) {},
        at::TensorOptions(entry.tensor.dtype()));
    if (entry.tensor.is_cpu() && entry.tensor.is_contiguous() && bytes <= 65536) {
      std::memcpy(to, entry.tensor.const_data_ptr(), bytes);  // a kernel's dispatch takes longer
    } else {
      copy.copy_(entry.tensor, /*non_blocking=*/true);
    }
    copies.push_back({entry.name, copy});
    offset += aligned(bytes);
  }
  if (!device_.is_cpu()) {
    const c10::impl::VirtualGuardImpl device(device_.type());
    copied_.emplace(device_.type());
    copied_->record(device.getStream(device_));
  }
  return copies;
}

void StagingMemory::wait() {
  if (copied_) copied_->synchronize();
}

}  // namespace trainctl
