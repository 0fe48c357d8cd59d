// How a file of a checkpoint is written.
#pragma once

#include <atomic>

namespace trainctl {

// kRenamed: under a temporary name, then renamed, the folder synced. kDirect: under its own name in
// a folder that nobody reads yet and that is synced and renamed as a whole.
enum class Placement { kRenamed, kDirect };

struct WriteOptions {
  Placement placement = Placement::kRenamed;
  const std::atomic<bool>* cancelled = nullptr;  // set: the write ends soon, with an error
};

}  // namespace trainctl
