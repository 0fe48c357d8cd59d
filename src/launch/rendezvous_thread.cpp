#include "launch/rendezvous_thread.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <csignal>
#include <exception>

namespace trainctl {
namespace {

void ring(int fd) { ::eventfd_write(fd, 1); }

template <typename Value>
void append(std::vector<Value>* target, std::vector<Value> more) {
  std::move(more.begin(), more.end(), std::back_inserter(*target));
}

}  // namespace

RendezvousThread::RendezvousThread(std::unique_ptr<RendezvousServer> server,
                                   RendezvousClient client, std::chrono::milliseconds heartbeat,
                                   std::chrono::milliseconds lost_after, int ready_fd)
    : server_(std::move(server)),
      client_(std::move(client)),
      tick_(std::clamp<std::chrono::milliseconds>(heartbeat / 4, std::chrono::milliseconds(5),
                                                  std::chrono::milliseconds(250))),
      longest_end_(lost_after),
      ready_fd_(ready_fd),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RendezvousThread::~RendezvousThread() {
  {
    const std::lock_guard<std::mutex> lock(mailbox_.mutex);
    mailbox_.leave = true;
  }
  ring(wake_.get());
  thread_.join();
}

// --- the main thread's side ---

void RendezvousThread::send(const Message& message) {
  {
    const std::lock_guard<std::mutex> lock(mailbox_.mutex);
    mailbox_.to_send.push_back(message);
  }
  ring(wake_.get());
}

std::optional<JoinOutcome> RendezvousThread::take_outcome() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  return std::exchange(mailbox_.outcome, std::nullopt);
}

std::optional<NodeEvent> RendezvousThread::take_event() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  if (mailbox_.events.empty()) return std::nullopt;
  NodeEvent event = std::move(mailbox_.events.front());
  mailbox_.events.pop_front();
  return event;
}

std::vector<std::string> RendezvousThread::take_log() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  return std::exchange(mailbox_.log, {});
}

bool RendezvousThread::stop_or_loss_pending(NodeEvent* event) {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  for (const NodeEvent& pending : mailbox_.events) {
    if (pending.kind != NodeEvent::Kind::kStop && pending.kind != NodeEvent::Kind::kNodeLost)
      continue;
    *event = pending;
    return true;
  }
  return false;
}

int64_t RendezvousThread::decided_attempt() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  return mailbox_.decided_attempt;
}

bool RendezvousThread::over() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  return mailbox_.over;
}

std::string RendezvousThread::last_waiting() {
  const std::lock_guard<std::mutex> lock(mailbox_.mutex);
  return mailbox_.last_waiting;
}

// --- the thread's side ---

void RendezvousThread::run() {
  std::optional<SteadyTime> end_at;
  try {
    for (;;) {
      turn();
      const bool leaving = take_orders();
      publish();
      if (!leaving) continue;
      const SteadyTime now = std::chrono::steady_clock::now();
      if (!end_at) end_at = now + longest_end_;
      if (client_.fd() < 0 && (!server_ || server_->deserted())) return;
      if (now > *end_at) return;
    }
  } catch (const std::exception& error) {
    publish_defect(error.what());
  }
}

// Waits for something to do, and does it.
void RendezvousThread::turn() {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
  if (client_.fd() >= 0) polled.push_back({client_.fd(), client_.polled_events(), 0});
  const size_t servers = polled.size();
  if (server_) server_->add_polled(&polled);
  ::poll(polled.data(), polled.size(), static_cast<int>(tick_.count()));
  const SteadyTime now = std::chrono::steady_clock::now();
  eventfd_t ignored = 0;
  if ((polled[0].revents & POLLIN) != 0) ::eventfd_read(wake_.get(), &ignored);
  client_.handle(servers > 1 && (polled[1].revents & ~POLLOUT) != 0, now);
  if (server_)
    server_->handle({polled.begin() + static_cast<std::ptrdiff_t>(servers), polled.end()}, now);
}

// Whether this launcher leaves.
bool RendezvousThread::take_orders() {
  std::vector<Message> messages;
  bool leave = false;
  {
    const std::lock_guard<std::mutex> lock(mailbox_.mutex);
    messages = std::exchange(mailbox_.to_send, {});
    leave = mailbox_.leave;
  }
  for (const Message& message : messages) client_.send(message);
  if (leave) {
    client_.leave();
    if (server_) server_->close_listener();
  }
  if (leave || !messages.empty()) client_.handle(false, std::chrono::steady_clock::now());
  return leave;
}

void RendezvousThread::publish() {
  auto outcome = client_.take_outcome();
  std::vector<NodeEvent> events = client_.take_events();
  std::vector<std::string> log = client_.take_log();
  if (server_) append(&log, server_->take_log());
  bool news = outcome || !events.empty() || !log.empty();
  {
    const std::lock_guard<std::mutex> lock(mailbox_.mutex);
    if (outcome) mailbox_.outcome = std::move(outcome);
    std::move(events.begin(), events.end(), std::back_inserter(mailbox_.events));
    append(&mailbox_.log, std::move(log));
    news = news || mailbox_.decided_attempt != client_.decided_attempt() ||
           mailbox_.over != client_.over();
    mailbox_.decided_attempt = client_.decided_attempt();
    mailbox_.over = client_.over();
    mailbox_.last_waiting = client_.last_waiting();
  }
  if (news) ring(ready_fd_);
}

// The launcher must not wait for ever for what this thread no longer says.
void RendezvousThread::publish_defect(const std::string& what) {
  NodeEvent event;
  event.kind = NodeEvent::Kind::kNodeLost;
  event.failure.exit_code = 1;
  event.failure.text = "the rendezvous of this launcher failed: " + what;
  {
    const std::lock_guard<std::mutex> lock(mailbox_.mutex);
    mailbox_.outcome = JoinOutcome{{}, 1, event.failure.text, false, true};
    mailbox_.events.push_back(std::move(event));
    mailbox_.over = true;
  }
  ring(ready_fd_);
}

}  // namespace trainctl
