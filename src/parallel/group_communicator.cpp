#include "parallel/group_communicator.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "parallel/deadline.h"
#include "parallel/failure.h"
#include "parallel/gloo_group.h"
#include "parallel/reducer_sync.h"
#include "trainctl/base/log.h"
#include "trainctl/base/strings.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;

std::atomic<bool> abandoned{false};

// Note [LibTorch's own log]: c10d writes to stderr of each socket that it tries again, waits for in
// vain or loses. What comes of it is an error of ours, which says the same with the cure. With NCCL
// its errors stay, the watchdog's among them. The user's own TORCH_CPP_LOG_LEVEL holds.
constexpr int kErrors = 2, kOnlyFatal = 3;  // severities of c10's log, with glog and without
void hear_from_libtorch(int least_severity) {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = least_severity;
}

// Columns of a rank's row of votes.
enum VoteColumn : int64_t {
  kStopSignal,
  kOutOfTime,
  kValidate,
  kSave,
  kSaveSettled,
  kSeconds,
  kVoteColumns
};

// What the store answers; nothing where it does not, or has gone.
template <class Ask>
auto ask_store(milliseconds limit, Ask ask) -> std::optional<decltype(ask())> {
  try {
    return within(limit, std::move(ask));
  } catch (const std::exception& error) {
    log_debug(std::string("the store does not answer: ") + error.what());
    return std::nullopt;
  }
}

UserError peer_ended(const PeerError& error) {
  return {static_cast<ExitCode>(error.exit_code),
          "ending because rank " + std::to_string(error.rank) + " failed: " + error.text};
}

}  // namespace

bool connections_abandoned() { return abandoned; }

GroupCommunicator::GroupCommunicator(const ProcessWorld& world, const ParallelConfig& config,
                                     const std::string& must_agree, const StopRequest& stop)
    : Communicator(world, stop),
      config_(config),
      timeout_(static_cast<int64_t>(config.timeout * 1000)),
      place_(meet(world, timeout_, must_agree, stop)) {
  const char* named = std::getenv("GLOO_SOCKET_IFNAME");
  interfaces_ = named != nullptr ? named : "";
  try {
    gloo_ = make_gloo_group(c10::make_intrusive<c10d::PrefixStore>("gloo", place_.store), rank(),
                            size(), timeout_, interfaces_, place_.address);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw environment_error("Gloo cannot connect this rank to the others over " +
                            (interfaces_.empty() ? place_.address : interfaces_) + ": " +
                            first_line(error.what()) +
                            "; name the network interface that reaches them in "
                            "GLOO_SOCKET_IFNAME ('ip address' lists them)");
  }
  heartbeat_ =
      std::make_unique<Heartbeat>(place_.store->clone(), world.rank, progress_,
                                  [this](const PeerError& error) { on_peer_error(error); });
}

void GroupCommunicator::use_device(const at::Device& device) {
  const bool nccl = config_.backend == CommBackend::kNccl ||
                    (config_.backend == CommBackend::kAuto && device.is_cuda());
  const std::string mine =
      (nccl ? "nccl on " : "gloo on ") + c10::DeviceTypeName(device.type(), true);
  const std::vector<std::string> all = gather(mine, "start: devices");
  const auto other =
      std::find_if(all.begin(), all.end(), [&](const auto& a) { return a != all[0]; });
  if (other != all.end()) {
    throw environment_error("rank 0 computes with " + all[0] + ", rank " +
                            std::to_string(other - all.begin()) + " with " + *other +
                            "; all ranks need the same kind of device: set backend.device to "
                            "\"cuda\" to see why a rank finds no GPU, or to \"cpu\"");
  }
  device_backend_ = gloo_;
  if (nccl) {
    if (!device.is_cuda()) {
      throw usage_error(
          "parallel.backend \"nccl\" works between GPUs only; this run computes on "
          "the CPU: write \"auto\" or \"gloo\"");
    }
    hear_from_libtorch(kErrors);
    // Ours reports a hang first, with more to say than NCCL's watchdog, which ends the process.
    const int64_t watchdog = timeout_.count() + 60000;
    const auto store = c10::make_intrusive<c10d::PrefixStore>("nccl", place_.store);
    device_backend_ = c10::intrusive_ptr<c10d::Backend>::reclaim(
        static_cast<c10d::Backend*>(make_nccl_backend(store.get(), rank(), size(), watchdog)));
  }
  const auto type = nccl ? c10d::ProcessGroup::NCCL : c10d::ProcessGroup::GLOO;
  device_group_ = c10::make_intrusive<c10d::ProcessGroup>(place_.store, rank(), size());
  device_group_->setBackend(device.type(), type, device_backend_);
  device_group_->setDefaultBackend(type);
}

at::Tensor GroupCommunicator::all_gather(const at::Tensor& mine) {
  std::vector<at::Tensor> inputs = {mine};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int64_t i = 0; i < world().world_size; ++i) outputs[0].push_back(at::empty_like(mine));
  gloo_->allgather(outputs, inputs)->wait();
  return at::stack(outputs[0]);
}

std::vector<std::string> GroupCommunicator::gather(const std::string& mine, const char* what) {
  progress_.join(what);
  const at::Tensor lengths =
      all_gather(at::tensor({static_cast<int64_t>(mine.size())}, at::kLong)).flatten();
  const int64_t longest = lengths.max().item<int64_t>();
  std::vector<std::string> all(static_cast<size_t>(world().world_size));
  if (longest == 0) return all;
  at::Tensor bytes = at::zeros({longest}, at::kByte);
  std::copy(mine.begin(), mine.end(), bytes.mutable_data_ptr<uint8_t>());
  const at::Tensor rows = all_gather(bytes);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const auto* text = reinterpret_cast<const char*>(rows[row].const_data_ptr<uint8_t>());
    all[i].assign(text, static_cast<size_t>(lengths[row].item<int64_t>()));
  }
  return all;
}

void GroupCommunicator::sum(const at::Tensor& tensor, const char* what) {
  progress_.join(what);
  std::vector<at::Tensor> tensors = {tensor};
  const bool host = tensor.is_cpu();
  (host ? gloo_ : device_backend_)->allreduce(tensors)->wait();
}

void GroupCommunicator::begin_vote(const std::function<StepVote()>& vote) {
  progress_.join("agreement on the step");
  const StepVote mine = vote();
  votes_ = at::zeros({world().world_size, kVoteColumns}, at::kDouble);
  double* row = votes_.mutable_data_ptr<double>() + world().rank * kVoteColumns;
  row[kStopSignal] = mine.stop_signal;
  row[kOutOfTime] = mine.out_of_time ? 1 : 0;
  row[kValidate] = mine.validate ? 1 : 0;
  row[kSave] = mine.save ? 1 : 0;
  row[kSaveSettled] = mine.save_settled ? 1 : 0;
  row[kSeconds] = mine.seconds;
  std::vector<at::Tensor> tensors = {votes_};
  vote_work_ = gloo_->allreduce(tensors);
}

StepVerdict GroupCommunicator::finish_vote() {
  vote_work_->wait();
  vote_work_.reset();
  const double* main = votes_.const_data_ptr<double>();
  StepVerdict verdict;
  verdict.out_of_time = main[kOutOfTime] != 0;
  verdict.validate = main[kValidate] != 0;
  verdict.save = main[kSave] != 0;
  verdict.save_settled = true;
  for (int64_t rank = 0; rank < world().world_size; ++rank) {
    const double* row = main + rank * kVoteColumns;
    verdict.seconds.push_back(row[kSeconds]);
    verdict.save_settled = verdict.save_settled && row[kSaveSettled] != 0;
    if (verdict.stop_signal != 0 || row[kStopSignal] == 0) continue;
    verdict.stop_signal = static_cast<int>(row[kStopSignal]);
    verdict.stop_rank = rank;
  }
  return verdict;
}

std::unique_ptr<GradientSync> GroupCommunicator::make_gradient_sync(
    const std::vector<NamedParameter>& parameters, const ParallelConfig& config) {
  return make_reducer_sync(parameters, device_group_, device_backend_, config, progress_);
}

std::vector<std::pair<std::string, std::string>> GroupCommunicator::report() const {
  const ProcessWorld& w = world();
  std::string ranks = std::to_string(w.world_size);
  if (w.node_count > 1) ranks += " on " + std::to_string(w.node_count) + " hosts";
  ranks += ", started by " + w.source;
  if (w.restart_count > 0) ranks += ", restart " + std::to_string(w.restart_count);
  std::string network = "Gloo over " + (interfaces_.empty() ? place_.address : interfaces_);
  if (device_backend_ != gloo_) network = "NCCL; host values by " + network;
  return {{"ranks", ranks}, {"network", network}};
}

std::string GroupCommunicator::hang_text() {
  const Progress::Snapshot now = progress_.snapshot();
  RankState mine;
  mine.rank = world().rank;
  mine.step = now.step;
  mine.doing = now.doing;
  mine.joined = now.joined;
  const std::string server = world().agent_store ? "the launcher" : "rank 0";
  std::string unknown = hang_begin(mine, config_.timeout);
  try {
    const auto ranks = within(milliseconds(5000), [store = place_.store, size = size()] {
      return read_ranks(*store->clone(), size);  // the old connection may be stuck
    });
    if (ranks) return hang_report(*ranks, mine, seconds_since_1970(), config_.timeout);
    unknown += "Missing: " + server + ", which serves the run's store and does not answer there " +
               "either: its process is stopped, or its host or the network to it is gone";
  } catch (const std::exception&) {
    unknown += "Which ones, " + server + " knew, which has ended: see its message";
  }
  return unknown;
}

std::exception_ptr GroupCommunicator::explain(const std::exception& error) {
  const FailureKind kind = failure_kind(error);
  log_debug(std::string("rank ") + std::to_string(rank()) + ": " + error.what());
  // What ended the other rank is known a moment after its connection closes, and its end should be
  // seen before that of the others.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (kind == FailureKind::kPeerLost) ::usleep(300000);
    const auto posted =
        ask_store(milliseconds(2000), [store = place_.store] { return read_error(*store); });
    if (!posted) break;
    if (*posted && (*posted)->rank != world().rank)
      return std::make_exception_ptr(peer_ended(**posted));
    if (kind == FailureKind::kTimeout) break;
  }
  const auto fail = [](const std::string& text) {
    return std::make_exception_ptr(UserError(ExitCode::kTrainingFailed, text));
  };
  if (kind == FailureKind::kTimeout) return fail(hang_text());
  const Progress::Snapshot now = progress_.snapshot();
  return fail("rank " + std::to_string(rank()) + " ends because another rank has ended (in step " +
              std::to_string(now.step) + ", " + now.doing +
              "); the launcher and that rank's output show the cause");
}

void GroupCommunicator::announce(const PeerError& error) {
  ask_store(milliseconds(1000), [store = place_.store, error] {
    post_error(*store, error);
    return true;
  });
  // The others ask once a second, and the store ends with this process.
  if (place_.served_here) ::usleep(1500000);
}

std::exception_ptr GroupCommunicator::end_with(std::exception_ptr error) {
  if (agreed_to_end_) return error;
  if (ending_.exchange(true)) ::pause();  // the heartbeat's thread is ending the process
  abandoned = true;
  try {
    std::rethrow_exception(error);
  } catch (const UserError& user_error) {
    announce({world().rank, static_cast<int>(user_error.code()), first_line(user_error.what())});
  } catch (const std::exception& other) {
    if (failure_kind(other) != FailureKind::kOther) return explain(other);
    announce({world().rank, static_cast<int>(ExitCode::kTrainingFailed), first_line(other.what())});
  }
  return error;
}

// On the heartbeat's thread. The main rank holds the run's folder and leaves by itself, when the
// other's connection closes; what any other holds, the system takes back. The rank that failed is
// left the time to end first.
void GroupCommunicator::on_peer_error(const PeerError& error) {
  if (is_main() || ending_.exchange(true)) return;
  if (!cause_was_heard()) log_error(peer_ended(error).what());
  std::fflush(nullptr);
  ::_exit(error.exit_code);
}

std::unique_ptr<Communicator> join_ranks(const ProcessWorld& world, const ParallelConfig& config,
                                         const std::string& must_agree, const StopRequest& stop) {
  hear_from_libtorch(kOnlyFatal);
  return std::make_unique<GroupCommunicator>(world, config, must_agree, stop);
}

}  // namespace trainctl
