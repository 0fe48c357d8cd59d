#include "parallel/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Null with getaddrinfo's status in `status`.
Addresses resolve(const std::string& host, int* status) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  *status = getaddrinfo(host.c_str(), "9", &hints, &found);
  return {*status == 0 ? found : nullptr, &freeaddrinfo};
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  const int status = getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? text : "";
}

// Of a datagram socket that is connected but never written to: only the routing table is asked.
std::string source_address(const addrinfo& target) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  std::string text;
  sockaddr_storage own = {};
  socklen_t length = sizeof own;
  if (::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    text = numeric(reinterpret_cast<const sockaddr*>(&own), length);
  }
  ::close(fd);
  return text;
}

}  // namespace

void require_resolvable(const std::string& host, const std::string& named_by) {
  int status = 0;
  if (resolve(host, &status)) return;
  throw environment_error("the name '" + host + "' (" + named_by +
                          ") does not resolve on this host: " + gai_strerror(status) +
                          "; give the address of rank 0's host in numbers, or mend the name "
                          "service or /etc/hosts");
}

std::string local_address_towards(const std::string& host) {
  int status = 0;
  const Addresses addresses = resolve(host, &status);
  for (const addrinfo* target = addresses.get(); target != nullptr; target = target->ai_next) {
    std::string text = source_address(*target);
    if (!text.empty()) return text;
  }
  return "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace trainctl
