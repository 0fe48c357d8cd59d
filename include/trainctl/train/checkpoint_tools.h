// `trainctl checkpoint …`: what there is, whether it is whole, what differs, what may go, and
// weights for other programs (docs/checkpoints.md). A source is a run directory, its checkpoints
// folder, or one step-N.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/train/host.h"

namespace trainctl {

struct ListCheckpoints {
  std::string source;
  bool verify = false;  // checksums as well
  bool json = false;
};

struct InspectCheckpoint {
  std::string source;
  std::vector<std::string> tensors;  // globs; empty: all of the model
  bool stats = false;
  bool json = false;
};

struct VerifyCheckpoints {
  std::string source;
  bool newest = false;  // only that one
  bool json = false;
};

struct DiffCheckpoints {
  std::string left, right;
  std::vector<std::string> only;  // of "model", "optimizer", "state", "config"; empty: all
  double rtol = 0;                // a tensor may differ by this much of its norm
  bool json = false;
};

struct PruneCheckpoints {
  std::string source;
  std::optional<int64_t> keep_latest, keep_every, before;
  bool leftovers = false;
  bool yes = false;
  bool json = false;
};

struct ExportWeights {
  std::string source, output;
  std::string dtype = "keep";  // or fp32, bf16, fp16
  uint64_t shard_bytes = 0;
  bool force = false;
  bool json = false;
};

ExitCode list_checkpoints_command(const ListCheckpoints& command, const RunHost& host);
ExitCode inspect_checkpoint_command(const InspectCheckpoint& command, const RunHost& host);
ExitCode verify_checkpoints_command(const VerifyCheckpoints& command, const RunHost& host);
ExitCode diff_checkpoints_command(const DiffCheckpoints& command, const RunHost& host);
ExitCode prune_checkpoints_command(const PruneCheckpoints& command, const RunHost& host);
ExitCode export_weights_command(const ExportWeights& command, const RunHost& host);

}  // namespace trainctl
