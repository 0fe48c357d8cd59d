// A TCP port kept for the ranks' store until they end.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

// Bound with SO_REUSEADDR and never listening: rank 0's store can bind and listen on it, while the
// kernel gives the port to nobody who asks for a free one. A second launcher that names the same
// port is kept out by an abstract Unix socket of that name, which lives and dies with this object.
class PortReservation {
 public:
  // Port 0: a free one. Throws environment_error naming `address` and port when it is taken, and
  // says who may hold it.
  static PortReservation make(const std::string& address, int64_t port);

  PortReservation() = default;
  PortReservation(PortReservation&& other) noexcept;
  PortReservation& operator=(PortReservation&& other) noexcept;
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;
  ~PortReservation() { release(); }

  int64_t port() const { return port_; }  // 0: none
  void release();

 private:
  int socket_ = -1;
  int name_ = -1;
  int64_t port_ = 0;
};

}  // namespace trainctl
