// Host memory into which the tensors of a save are copied, so that training goes on while they are
// written. Kept from one save to the next.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/checkpoint/safetensors.h"

namespace trainctl {

class StagingMemory {
 public:
  // `device`: where the tensors live. Memory for a GPU's tensors is pinned.
  explicit StagingMemory(at::Device device) : device_(device) {}

  // Room for `bytes` of tensors, without touching it yet. False, with the reason, when the machine
  // has not got it.
  bool reserve(uint64_t bytes, std::string* why_not);
  // Work for another thread: has the pages made. Harmless at any time.
  std::function<void()> populate() const;

  // Copies on the tensors' device in the order of its other work; `wait` returns when they are
  // there. The room must have been reserved.
  std::vector<TensorEntry> copy(const std::vector<TensorEntry>& tensors);
  void wait();

 private:
  at::Device device_;
  at::Tensor memory_;
  std::optional<c10::Event> copied_;  // of a GPU
};

// What copies of these tensors take, each aligned.
uint64_t staging_bytes(const std::vector<TensorEntry>& tensors);

}  // namespace trainctl
