// Where launchers meet: --rdzv-endpoint host[:port].
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

constexpr int64_t kRendezvousPort = 29400;

struct Endpoint {
  std::string host;  // name, IPv4 or IPv6 address, without brackets
  int64_t port = kRendezvousPort;

  std::string to_string() const;  // [::1]:29400
};

// `source` says where the text stands, for messages: "--rdzv-endpoint", "PET_RDZV_ENDPOINT".
// A usage error says what is wrong with it and how it is written.
Endpoint parse_endpoint(const std::string& text, const std::string& source);

}  // namespace trainctl
