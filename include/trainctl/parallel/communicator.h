// What one rank needs of the others. A single process has a communicator too, which does nothing
// (make_single_communicator), so that nobody asks whether there are others.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/base/world.h"
#include "trainctl/config/config.h"
#include "trainctl/plan/plan.h"

namespace trainctl {

// What a rank brings to the agreement of every step.
struct StepVote {
  int stop_signal = 0;
  bool out_of_time = false;  // training.max_time
  bool validate = false, save = false;
  bool save_settled = false;  // this rank has done its part of the save under way
  double seconds = 0;         // this rank's own work in the step before, without waiting for others
};

// 0, or the signal that has asked this process to stop.
using StopRequest = std::function<int()>;

// The same on every rank.
struct StepVerdict {
  int stop_signal = 0;    // of the first rank that was asked to stop
  int64_t stop_rank = 0;  // which one that is
  bool out_of_time = false, validate = false, save = false;  // as rank 0 votes
  bool save_settled = false;                                 // on every rank
  std::vector<double> seconds;                               // by rank
};

class GradientSync;
struct NamedParameter;

class Communicator {
 public:
  virtual ~Communicator() = default;

  const ProcessWorld& world() const { return world_; }
  WorldShape shape() const { return {world_.world_size, world_.rank}; }
  // Rank 0 alone writes files and speaks.
  bool is_main() const { return world_.rank == 0; }

  // Once the run's device is known, before anything that takes a tensor of it.
  virtual void use_device(const at::Device& device) = 0;

  // Each of these is called by all ranks in the same order. `what` says in reports of a hang what
  // is being waited for.
  virtual std::vector<std::string> gather(const std::string& mine, const char* what) = 0;
  virtual void sum(const at::Tensor& tensor, const char* what) = 0;  // in place, on any device
  std::string from_main(const std::string& text, const char* what) { return gather(text, what)[0]; }
  void barrier(const char* what) { gather("", what); }

  // Runs `work` on every rank. Where it throws on one, that rank's error goes up there, and a short
  // one with the same exit code on the others, so that none is left waiting.
  void together(const char* what, const std::function<void()>& work);

  // The agreement of a step: begun before the last backward pass, so that it travels while
  // gradients are computed, and finished after the update. A single process votes at the end.
  virtual void begin_vote(const std::function<StepVote()>& vote) = 0;
  virtual StepVerdict finish_vote() = 0;

  // Where this rank is, for reports of a hang. `doing` is a literal.
  virtual void enter(int64_t step, const char* doing) = 0;

  // How gradients are summed over ranks.
  virtual std::unique_ptr<GradientSync> make_gradient_sync(
      const std::vector<NamedParameter>& parameters, const ParallelConfig& config) = 0;

  // Lines for the run's header.
  virtual std::vector<std::pair<std::string, std::string>> report() const = 0;

  // The rank is about to end with this error: the others are told. Called for errors that did not
  // come from `together`. Returns what is to be thrown instead: for a failed connection or a rank
  // that does not answer, a UserError that says so.
  virtual std::exception_ptr end_with(std::exception_ptr error) = 0;

 protected:
  explicit Communicator(const ProcessWorld& world, StopRequest stop = {})
      : world_(world), stop_(std::move(stop)) {}

  // Another rank has failed and says why: it is left a second to end first, so that a launcher
  // takes its word for the cause. True once this process is asked to end too: then the cause has
  // been heard, and an echo of it is of no use.
  bool cause_was_heard() const;

  bool agreed_to_end_ = false;  // by `together`: every rank knows

 private:
  ProcessWorld world_;
  StopRequest stop_;
};

std::unique_ptr<Communicator> make_single_communicator();

// Joins the other ranks. `must_agree` is a JSON object that has to be the same on all of them
// (usage_error naming the first value that differs). Throws environment_error where they cannot be
// reached, naming the address and who is missing. A stop request while ranks are waited for ends
// the process as the signal would: there is nothing to save yet.
std::unique_ptr<Communicator> join_ranks(const ProcessWorld& world, const ParallelConfig& config,
                                         const std::string& must_agree, const StopRequest& stop);

// True once connections to other ranks were given up as they were: their threads may hang, and the
// process must end without waiting for them.
bool connections_abandoned();

}  // namespace trainctl
