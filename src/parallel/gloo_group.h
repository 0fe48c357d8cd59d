// Gloo between hosts' processors. The one file that sees c10d's Gloo class is gloo_group.cpp.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace trainctl {

// `interfaces` (names, comma between them, as in GLOO_SOCKET_IFNAME) or else `address`, one of this
// host in numbers, says where to listen. Blocks until every rank has come.
c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank, int size,
                                                  std::chrono::milliseconds timeout,
                                                  const std::string& interfaces,
                                                  const std::string& address);

}  // namespace trainctl
