// From the written parts to a checkpoint that exists: index, state, manifest, marker, rename.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/shard_plan.h"
#include "trainctl/checkpoint/checkpoint.h"

namespace trainctl {

struct CommitRequest {
  fs::path checkpoints;  // the folder of all
  fs::path partial;      // where the parts are
  const ShardPlan* plan = nullptr;
  std::map<std::string, WrittenFile> files;  // of all parts
  int64_t step = 0;
  std::string state_json, run;
  std::optional<double> validation_loss;
};

// Makes step-N of it and returns its folder. Throws checkpoint_error, also when a shard that
// another rank has written is not to be seen here in its size. On failure `partial` is left.
fs::path commit_checkpoint(const CommitRequest& request);

}  // namespace trainctl
