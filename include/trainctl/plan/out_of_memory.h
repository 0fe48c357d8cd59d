// What a run says when memory runs out: when, how much was asked for and left, what takes the
// memory, and what to change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainctl/base/library_error.h"
#include "trainctl/base/out_of_memory.h"
#include "trainctl/config/config.h"
#include "trainctl/plan/plan.h"

namespace trainctl {

struct OutOfMemoryMoment {
  OutOfMemoryFigures figures;  // of the error's text
  std::string where;           // "step 1, forward pass of micro-batch 1 of 2"
  // In the order of a run: what has been made by then.
  enum class Stage {
    kBuilding,
    kEvaluating,
    kForward,
    kBackward,
    kUpdate
  } stage = Stage::kBuilding;
  uint64_t total = 0;             // of the device, or what this process may use of the host's
  std::optional<uint64_t> free;   // now
  int64_t ranks = 1;              // of the run
  int64_t sharing_processes = 1;  // of the run, with the same memory
  bool logits_in_parts = false;   // the head keeps the logits of some rows only
  ErrorEvidence evidence;
};

// Several lines; the first says what, where and how much.
std::string out_of_memory_text(const Config& config, const RunPlan& plan,
                               const OutOfMemoryMoment& moment);

// The largest micro-batch below the one at hand with which accumulation keeps the global batch; 0:
// there is none.
int64_t smaller_micro_batch(const BatchPlan& batch, int64_t ranks);

}  // namespace trainctl
