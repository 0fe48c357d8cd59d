// TCP as the rendezvous needs it: everything non-blocking and closed on exec.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainctl {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// Asked often while something waits; true ends the wait.
using Stopped = bool (*)();
using SteadyTime = std::chrono::steady_clock::time_point;

struct Address {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const;
  sockaddr* get();
  std::string host() const;  // numeric, without the port
  bool is_loopback() const;
};

struct Resolution {
  std::vector<Address> addresses;  // empty: `problem` says why
  std::string problem;
};

// Name servers that do not answer can hold getaddrinfo for long: it is given up after `patience`.
Resolution resolve(const std::string& host, int64_t port, std::chrono::milliseconds patience,
                   Stopped stopped);

std::vector<Address> local_addresses(int64_t port);  // of this machine, with that port

// One of this machine's own addresses.
bool is_local(const Address& address);

// Listens on `address`, with port 0 on a free one. Closed with errno set where that fails.
Descriptor listen_on(const Address& address);
// Any address of this machine, IPv4 and where there is it IPv6.
Descriptor listen_on_any(int64_t port);
int64_t bound_port(int fd);

struct Accepted {
  Descriptor fd;
  Address from;
};
Accepted accept_from(int listener);  // closed when nobody waits

// Closed and `problem` set where it fails or takes longer than `patience`.
Descriptor connect_to(const Address& address, std::chrono::milliseconds patience, Stopped stopped,
                      std::string* problem);

std::string error_text(int error_number);

}  // namespace trainctl
