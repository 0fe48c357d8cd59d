// The communicator of several processes, over c10d: Gloo for values of the host, Gloo or NCCL for
// tensors of the device.
#pragma once

#include <atomic>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "parallel/heartbeat.h"
#include "parallel/meeting.h"
#include "trainctl/parallel/communicator.h"
#include "trainctl/parallel/gradient_sync.h"

namespace trainctl {

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(const ProcessWorld& world, const ParallelConfig& config,
                    const std::string& must_agree, const StopRequest& stop);
  GroupCommunicator(const GroupCommunicator&) = delete;
  GroupCommunicator& operator=(const GroupCommunicator&) = delete;

  void use_device(const at::Device& device) override;
  std::vector<std::string> gather(const std::string& mine, const char* what) override;
  void sum(const at::Tensor& tensor, const char* what) override;
  void begin_vote(const std::function<StepVote()>& vote) override;
  StepVerdict finish_vote() override;
  void enter(int64_t step, const char* doing) override { progress_.enter(step, doing); }
  std::unique_ptr<GradientSync> make_gradient_sync(const std::vector<NamedParameter>& parameters,
                                                   const ParallelConfig& config) override;
  std::vector<std::pair<std::string, std::string>> report() const override;
  std::exception_ptr end_with(std::exception_ptr error) override;

 private:
  at::Tensor all_gather(const at::Tensor& mine);
  std::exception_ptr explain(const std::exception& error);
  std::string hang_text();
  void on_peer_error(const PeerError& error);
  void announce(const PeerError& error);
  int rank() const { return static_cast<int>(world().rank); }
  int size() const { return static_cast<int>(world().world_size); }

  ParallelConfig config_;
  std::chrono::milliseconds timeout_;
  Progress progress_;
  MeetingPlace place_;
  std::string interfaces_;
  c10::intrusive_ptr<c10d::Backend> gloo_;
  c10::intrusive_ptr<c10d::Backend> device_backend_;     // gloo_ on the CPU
  c10::intrusive_ptr<c10d::ProcessGroup> device_group_;  // the same as c10d::Reducer wants it
  std::unique_ptr<Heartbeat> heartbeat_;
  at::Tensor votes_;  // [ranks, fields] of the step at hand
  c10::intrusive_ptr<c10d::Work> vote_work_;
  std::atomic<bool> ending_{false};  // who sets it says why this rank ends
};

}  // namespace trainctl
