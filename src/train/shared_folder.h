// Do all ranks see the same folder?
#pragma once

#include "trainctl/base/files.h"
#include "trainctl/parallel/communicator.h"

namespace trainctl {

// All ranks write their part of a checkpoint into the run's folder, which therefore has to be one
// and the same for all hosts. Rank 0 leaves a mark there that every other rank must find under the
// path it knows (`folder`), and must itself find a mark of every host. usage_error on all ranks,
// naming hosts and paths, where that is not so. Nothing is asked of locks of the file system.
void require_shared_folder(const fs::path& folder, Communicator& communicator);

}  // namespace trainctl
