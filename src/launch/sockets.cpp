#include "launch/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace trainctl {
namespace {

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kGlance{50};  // between two questions whether to stop

Descriptor tcp_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);  // what cannot be set stays as it is
}

Resolution ask_resolver(const std::string& host, int64_t port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  Resolution result;
  if (error != 0) {
    result.problem = error == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(error);
    return result;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    result.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return result;
}

// A port that nobody listens on may be given to the caller's own end of the connection, which then
// reaches itself.
bool is_connected_to_itself(int fd) {
  Address own, other;
  own.length = other.length = sizeof own.storage;
  return ::getsockname(fd, own.get(), &own.length) == 0 &&
         ::getpeername(fd, other.get(), &other.length) == 0 && own.length == other.length &&
         std::memcmp(&own.storage, &other.storage, own.length) == 0;
}

struct Question {
  std::mutex mutex;
  std::optional<Resolution> answer;
};

}  // namespace

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

const sockaddr* Address::get() const { return reinterpret_cast<const sockaddr*>(&storage); }
sockaddr* Address::get() { return reinterpret_cast<sockaddr*>(&storage); }

std::string Address::host() const {
  std::array<char, NI_MAXHOST> name = {};
  if (::getnameinfo(get(), length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "unknown address";
  const std::string text = name.data();
  const std::string mapped = "::ffff:";  // an IPv4 caller of a socket that serves both
  return text.starts_with(mapped) && text.find('.') != std::string::npos
             ? text.substr(mapped.size())
             : text;
}

bool Address::is_loopback() const {
  const std::string text = host();
  return text == "::1" || text.starts_with("127.");
}

std::string error_text(int error_number) { return std::generic_category().message(error_number); }

Resolution resolve(const std::string& host, int64_t port, std::chrono::milliseconds patience,
                   Stopped stopped) {
  Resolution numeric = ask_resolver(host, port, AI_NUMERICHOST);
  if (!numeric.addresses.empty()) return numeric;
  // The thread may outlive this call, and owns what it writes to.
  const auto question = std::make_shared<Question>();
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the main thread
  std::thread([question, host, port] {
    Resolution answer = ask_resolver(host, port, 0);
    const std::lock_guard<std::mutex> lock(question->mutex);
    question->answer = std::move(answer);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const SteadyTime deadline = std::chrono::steady_clock::now() + patience;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, kGlance)) {
    {
      const std::lock_guard<std::mutex> lock(question->mutex);
      if (question->answer) return *question->answer;
    }
    if (stopped()) return {{}, "stopped"};
    if (std::chrono::steady_clock::now() > deadline) return {{}, "no name server answers"};
    std::this_thread::sleep_for(pause);
  }
}

std::vector<Address> local_addresses(int64_t port) {
  std::vector<Address> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Address address;
    address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    const auto network_port = htons(static_cast<uint16_t>(port));
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = network_port;
    } else {
      reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = network_port;
    }
    addresses.push_back(address);
  }
  ::freeifaddrs(list);
  return addresses;
}

bool is_local(const Address& address) {
  if (address.is_loopback()) return true;
  const std::vector<Address> own = local_addresses(0);
  return std::any_of(own.begin(), own.end(), [&address](const Address& one) {
    if (one.get()->sa_family != address.get()->sa_family) return false;
    if (one.get()->sa_family == AF_INET) {
      return reinterpret_cast<const sockaddr_in*>(one.get())->sin_addr.s_addr ==
             reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr;
    }
    return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one.get())->sin6_addr,
                       &reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr,
                       sizeof(in6_addr)) == 0;
  });
}

Descriptor listen_on(const Address& address) {
  Descriptor fd = tcp_socket(address.get()->sa_family);
  if (!fd.open()) return fd;
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // beside connections of an earlier run
  if (address.get()->sa_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.get(), address.length) == 0 && ::listen(fd.get(), kBacklog) == 0)
    return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

Descriptor listen_on_any(int64_t port) {
  Address any;
  auto* six = reinterpret_cast<sockaddr_in6*>(&any.storage);
  six->sin6_family = AF_INET6;
  six->sin6_addr = in6addr_any;
  six->sin6_port = htons(static_cast<uint16_t>(port));
  any.length = sizeof *six;
  Descriptor fd = listen_on(any);
  if (fd.open() || errno == EADDRINUSE || errno == EACCES) return fd;
  any = {};  // a machine without IPv6
  auto* four = reinterpret_cast<sockaddr_in*>(&any.storage);
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = htonl(INADDR_ANY);
  four->sin_port = htons(static_cast<uint16_t>(port));
  any.length = sizeof *four;
  return listen_on(any);
}

int64_t bound_port(int fd) {
  Address own;
  own.length = sizeof own.storage;
  if (::getsockname(fd, own.get(), &own.length) != 0) return 0;
  const bool six = own.get()->sa_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<const sockaddr_in6*>(own.get())->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(own.get())->sin_port);
}

Accepted accept_from(int listener) {
  Accepted accepted;
  accepted.from.length = sizeof accepted.from.storage;
  accepted.fd = Descriptor(::accept4(listener, accepted.from.get(), &accepted.from.length,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.fd.open()) set_option(accepted.fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return accepted;
}

Descriptor connect_to(const Address& address, std::chrono::milliseconds patience, Stopped stopped,
                      std::string* problem) {
  Descriptor fd = tcp_socket(address.get()->sa_family);
  int error = 0;
  if (!fd.open() ||
      (::connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS)) {
    *problem = error_text(errno);
    return {};
  }
  const SteadyTime deadline = std::chrono::steady_clock::now() + patience;
  pollfd entry = {fd.get(), POLLOUT, 0};
  while (::poll(&entry, 1, static_cast<int>(kGlance.count())) <= 0) {
    if (stopped() || std::chrono::steady_clock::now() > deadline) {
      *problem = error_text(ETIMEDOUT);
      return {};
    }
  }
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0 && is_connected_to_itself(fd.get())) error = ECONNREFUSED;
  if (error != 0) {
    *problem = error_text(error);
    return {};
  }
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

}  // namespace trainctl
