// The launchers of a run, one per node, as each of them sees the others. One launcher alone is a
// LocalNodeGroup, so that the supervisor has one path; several meet over TCP (rendezvous.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainctl/launch/agreed_values.h"

namespace trainctl {

// What a launcher brings to the meeting. `agree` are values that must be the same on all nodes: a
// difference is refused before any worker starts, with both values and both hosts.
struct NodeOffer {
  std::string host;
  std::optional<int64_t> node_rank;  // unset: the rendezvous assigns it
  int64_t local_world_size = 1;
  AgreedValues agree;
};

struct NodeAssignment {
  int64_t node_rank = 0;
  int64_t node_count = 1;
  int64_t first_rank = 0;  // global rank of this node's local rank 0
  int64_t world_size = 1;
  std::string master_addr;
  // Reserved on node 0 (bound, not listening) until the attempt ends.
  int64_t master_port = 0;
  std::string run_id;  // the same on all nodes
};

// One attempt's first failure, complete enough to be told on every node.
struct WorkerFailure {
  std::string host;
  int64_t rank = 0;
  int64_t local_rank = 0;
  int exit_code = 0;         // when signal is 0
  int signal = 0;            // that ended it
  std::string text;          // the whole explanation as it is shown, several lines
  bool may_restart = false;  // codes 2 to 5 and 75 never

  int launcher_exit_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

struct NodeEvent {
  enum class Kind {
    kFailure,   // a worker elsewhere failed first: stop, then restart or end as `restart` says
    kStop,      // another launcher was asked to stop (signal)
    kNodeLost,  // a launcher is gone or silent; `failure` says which and since when (exit code 3)
    kAllDone,   // every node's workers have ended well
  };
  Kind kind = Kind::kFailure;
  WorkerFailure failure;
  int signal = 0;
  bool restart = false;
};

class NodeGroup {
 public:
  virtual ~NodeGroup() = default;

  // Blocks until all nodes are there for `attempt` (0, 1, …). `stopped` is asked often and ends the
  // wait (returns nullopt). nullopt without it: another launcher was asked to stop meanwhile, which
  // next_event then says (kStop). Throws UserError: disagreement, time-out (with who is missing),
  // busy or unreachable address, a node lost while waiting for a restart.
  virtual std::optional<NodeAssignment> join(const NodeOffer& offer, int64_t attempt,
                                             bool (*stopped)()) = 0;

  // This node's workers failed, ended well, or were told to stop by a signal of this launcher.
  // The first failure of an attempt counts, and its `restart` is what all nodes do: once
  // report_failure returns, next_event holds another node's that came before this one, if any.
  virtual void report_failure(const WorkerFailure& failure, bool restart) = 0;
  virtual void report_done() = 0;
  virtual void report_stop(int signal) = 0;

  // For poll(2): readable when next_event may have something; -1 when it never has.
  virtual int event_fd() const = 0;
  // Never blocks. After report_done the group must go on being asked until kAllDone or worse.
  virtual std::optional<NodeEvent> next_event() = 0;
};

// `port` 0: a free one. An explicit port that is taken is refused with address and port.
std::unique_ptr<NodeGroup> make_local_node_group(const std::string& master_addr, int64_t port,
                                                 const std::string& run_id);

struct RendezvousOptions {
  std::string host;  // --rdzv-endpoint; the launcher on that host serves it
  int64_t port = 29400;
  // Who named the host, and what to do where the name does not resolve.
  std::string host_source = "--rdzv-endpoint";
  std::string host_cure = "give a name that every node can resolve, or the address of node 0";
  int64_t node_count = 2;
  std::string run_id;       // --rdzv-id; launchers with another one are refused as strangers
  std::string master_addr;  // unset: local_addr of node 0, else the endpoint's host
  std::string local_addr;   // of this node
  int64_t master_port = 0;  // 0: a free one on node 0
  std::chrono::milliseconds join_timeout{300'000};
  std::chrono::milliseconds heartbeat{1'000};    // a sign of life both ways
  std::chrono::milliseconds lost_after{10'000};  // of silence
};
std::unique_ptr<NodeGroup> make_rendezvous_node_group(const RendezvousOptions& options);

}  // namespace trainctl
