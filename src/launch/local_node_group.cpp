// A launcher alone: nobody to wait for, nothing to hear.
#include "trainctl/launch/node_group.h"
#include "trainctl/launch/port_reservation.h"

namespace trainctl {
namespace {

class LocalNodeGroup : public NodeGroup {
 public:
  LocalNodeGroup(std::string master_addr, int64_t port, std::string run_id)
      : master_addr_(std::move(master_addr)), wanted_port_(port), run_id_(std::move(run_id)) {}

  std::optional<NodeAssignment> join(const NodeOffer& offer, int64_t, bool (*stopped)()) override {
    if (stopped()) return std::nullopt;
    // A new port for each attempt: what is left of the last one's store cannot be met.
    reservation_.release();
    reservation_ = PortReservation::make(master_addr_, wanted_port_);
    NodeAssignment assignment;
    assignment.world_size = offer.local_world_size;
    assignment.master_addr = master_addr_;
    assignment.master_port = reservation_.port();
    assignment.run_id = run_id_;
    return assignment;
  }

  void report_failure(const WorkerFailure&, bool) override {}
  void report_done() override { done_ = true; }
  void report_stop(int) override {}
  int event_fd() const override { return -1; }

  std::optional<NodeEvent> next_event() override {
    if (!done_) return std::nullopt;
    done_ = false;
    NodeEvent event;
    event.kind = NodeEvent::Kind::kAllDone;
    return event;
  }

 private:
  std::string master_addr_;
  int64_t wanted_port_;
  std::string run_id_;
  PortReservation reservation_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<NodeGroup> make_local_node_group(const std::string& master_addr, int64_t port,
                                                 const std::string& run_id) {
  return std::make_unique<LocalNodeGroup>(master_addr, port, run_id);
}

}  // namespace trainctl
