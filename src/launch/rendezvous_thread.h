// The one thread of a launcher that speaks with the other launchers, so that signs of life flow
// whatever the main thread is doing. It shares nothing with the main thread but the mailbox, writes
// no log itself, and takes no signals. Workers are started by the main thread only: their
// parent-death signal is bound to the thread that starts them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launch/rendezvous_client.h"
#include "launch/rendezvous_server.h"

namespace trainctl {

class RendezvousThread {
 public:
  // `server` only on the serving launcher. `lost_after` also bounds how long the end may take.
  RendezvousThread(std::unique_ptr<RendezvousServer> server, RendezvousClient client,
                   std::chrono::milliseconds heartbeat, std::chrono::milliseconds lost_after,
                   int ready_fd);
  ~RendezvousThread();  // says goodbye; the serving one waits until everybody has been told

  void send(const Message& message);

  std::optional<JoinOutcome> take_outcome();
  std::optional<NodeEvent> take_event();
  std::vector<std::string> take_log();
  bool stop_or_loss_pending(NodeEvent* event);
  int64_t decided_attempt();
  bool over();
  std::string last_waiting();

 private:
  struct Mailbox {
    std::mutex mutex;
    std::vector<Message> to_send;
    bool leave = false;
    std::optional<JoinOutcome> outcome;
    std::deque<NodeEvent> events;
    std::vector<std::string> log;
    int64_t decided_attempt = -1;
    bool over = false;
    std::string last_waiting;
  };

  void run();
  void turn();
  bool take_orders();
  void publish();
  void publish_defect(const std::string& what);

  std::unique_ptr<RendezvousServer> server_;
  RendezvousClient client_;
  std::chrono::milliseconds tick_;
  std::chrono::milliseconds longest_end_;
  int ready_fd_;
  Descriptor wake_;
  Mailbox mailbox_;
  std::thread thread_;
};

}  // namespace trainctl
