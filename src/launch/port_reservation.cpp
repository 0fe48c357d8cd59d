#include "trainctl/launch/port_reservation.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "launch/open_files.h"
#include "launch/sockets.h"
#include "trainctl/base/strings.h"
#include "trainctl/launch/endpoint.h"

namespace trainctl {
namespace {

constexpr int kTries = 64;  // free ports that another launcher reserved in the same moment

// On all addresses of both families, where the machine has IPv6 at all. -1 with errno on failure.
int bind_port(int64_t port) {
  const auto network_port = htons(static_cast<uint16_t>(port));
  const int yes = 1, no = 0;
  if (const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0); fd >= 0) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = network_port;
    any.sin6_addr = in6addr_any;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return fd;
    const int error = errno;
    ::close(fd);
    errno = error;
    if (error == EADDRINUSE || error == EACCES) return -1;
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_port = network_port;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

int64_t port_of(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  const bool is_ipv6 = storage.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                       : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

// Abstract names are per network namespace, as ports are. -1 when another launcher has it.
int bind_name(int64_t port) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "trainctl/master-port/" + std::to_string(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// " at [::1]", where the port is free at other addresses of this machine: one who looks at
// 127.0.0.1 only would find nobody.
std::string at_which_address(int64_t port) {
  std::vector<std::string> held;
  bool free_somewhere = false;
  for (const Address& address : local_addresses(port)) {
    if (listen_on(address).open()) {
      free_somewhere = true;
    } else if (errno == EADDRINUSE) {
      held.push_back(Endpoint{address.host(), port}.to_string());
    }
  }
  return free_somewhere && !held.empty() ? " at " + join(held, ", ") : "";
}

UserError taken(const std::string& address, int64_t port, const std::string& why) {
  return environment_error(
      "port " + std::to_string(port) + " of " + (address.empty() ? "this machine" : address) +
      " cannot be used: " + why + "; choose another port, or leave it out for a free one");
}

}  // namespace

PortReservation PortReservation::make(const std::string& address, int64_t port) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    PortReservation reservation;
    reservation.socket_ = bind_port(port);
    if (reservation.socket_ < 0 && means_too_many_open_files(errno))
      throw system_call_error("reserve a port for rank 0", errno);
    if (reservation.socket_ < 0) {
      throw taken(address, port,
                  errno == EADDRINUSE ? "another process holds it" + at_which_address(port)
                                      : std::strerror(errno));
    }
    reservation.port_ = port_of(reservation.socket_);
    reservation.name_ = bind_name(reservation.port_);
    if (reservation.name_ >= 0) return reservation;
    if (means_too_many_open_files(errno))
      throw system_call_error("reserve a port for rank 0", errno);
    if (port != 0) throw taken(address, port, "another trainctl launch has reserved it");
  }
  throw taken(address, port, "no free port was found");
}

PortReservation::PortReservation(PortReservation&& other) noexcept { *this = std::move(other); }

PortReservation& PortReservation::operator=(PortReservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  socket_ = std::exchange(other.socket_, -1);
  name_ = std::exchange(other.name_, -1);
  port_ = std::exchange(other.port_, 0);
  return *this;
}

void PortReservation::release() {
  if (socket_ >= 0) ::close(socket_);
  if (name_ >= 0) ::close(name_);
  socket_ = name_ = -1;
  port_ = 0;
}

}  // namespace trainctl
