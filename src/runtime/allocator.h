// Memory for CPU tensors.
#pragma once

#include <cstddef>

namespace trainctl {

// Makes ATen keep freed blocks for the next tensor of about that size, and put large ones on huge
// pages. Call before the first tensor is made; more calls do nothing.
//
// A training step asks for the same sizes again and again. The C library returns large blocks to
// the system at once, and every page of the next one faults and is cleared anew; measured gains are
// in docs/performance.md. What is kept is bounded: see release_if_hoarding in the source.
void install_cpu_allocator();

struct CpuAllocatorStats {
  size_t live = 0;         // bytes in tensors
  size_t cached = 0;       // bytes kept for later ones
  size_t from_system = 0;  // requests that the cache could not serve
};
CpuAllocatorStats cpu_allocator_stats();

// Returns what is cached to the system.
void release_cached_cpu_memory();

}  // namespace trainctl
