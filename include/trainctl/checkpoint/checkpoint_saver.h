// Saves a run's checkpoints while it trains: all ranks write their shards at once, each on a thread
// of its own and from a copy, so that no step waits for a disk.
//
// Note [Saving together]. A save goes through two phases, the same on all ranks. Writing: every
// rank writes its shards. Committing: rank 0 adds state, manifest and marker, and renames. A phase
// ends when it is settled on every rank, which the vote of each step finds out
// (StepVote::save_settled); then all call advance(), exchange what came of it, and go to the next
// phase or give the save up. No rank ever looks at another's files to learn how far it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainctl/checkpoint/checkpoint.h"
#include "trainctl/parallel/communicator.h"

namespace trainctl {

struct SaverOptions {
  fs::path checkpoints;
  std::string run;  // an identity for the run's life, the same on all ranks
  Retention retention;
  bool asynchronous = true;
  uint64_t shard_bytes = uint64_t{2} << 30;
  fs::path sync_first;  // a file that is to be on disk before a checkpoint is; may be empty
  std::function<void()> before_write;  // on the thread that writes: where tests put a slow disk
};

// How a save ended; the same on all ranks but for the times.
struct SaveOutcome {
  int64_t step = 0;
  std::string error;  // empty: it is there
  fs::path path;
  uint64_t bytes = 0;
  double seconds = 0;  // from the request to the rename
  double stall = 0;    // of those, how long training stood still
  bool asynchronous = false;
};

class CheckpointSaver {
 public:
  // `token`: drawn by rank 0, the same on all ranks, another one in every process.
  CheckpointSaver(SaverOptions options, const std::string& token, at::Device device,
                  Communicator& communicator);
  // Where one process saves alone, a save under way is brought to its end; where others would have
  // to agree, it is broken off.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Has the memory for copies made in the background, before a first save needs it.
  void prepare(const CheckpointContent& content);

  bool busy() const;       // a save is under way
  bool settled() const;    // this rank has done its part of the phase; for the vote
  double seconds() const;  // since the save under way was asked for
  int64_t step() const;    // of the save under way, or of the last one
  // A next save may be asked for: none is under way, or it ends at once, or it is a small one that
  // finish(kPatience) brings to its end, as long as those before were quick.
  bool ready() const;
  static constexpr std::chrono::milliseconds kPatience{500};

  // All ranks call these alike.

  // Begins a save; none may be under way. With `wait` it is written from the tensors themselves and
  // has ended when this returns.
  void begin(const CheckpointContent& content, bool wait);
  // To the next phase, once all ranks have settled this one.
  void advance();
  // Brings the save under way to its end. With a limit it may return early, with false on all
  // ranks.
  bool finish(std::optional<std::chrono::milliseconds> limit = {});

  // Of the save that ended last, once.
  std::optional<SaveOutcome> take_outcome();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// For SaverOptions::run and the token.
std::string draw_token();

}  // namespace trainctl
