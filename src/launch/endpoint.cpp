#include "trainctl/launch/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

constexpr size_t kLongestName = 253;  // RFC 1035, in its printed form

[[noreturn]] void refuse(const std::string& source, const std::string& text,
                         const std::string& problem) {
  throw usage_error(source + " is '" + text + "': " + problem +
                    "; write it as host, host:port or [IPv6 address]:port, for example node1:" +
                    std::to_string(kRendezvousPort));
}

bool is_ipv6(std::string address) {
  address.resize(std::min(address.find('%'), address.size()));  // fe80::1%eth0
  in6_addr parsed = {};
  return ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

int64_t parse_port(const std::string& source, const std::string& text, std::string_view port) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc() || end != port.data() + port.size() || value < 1 || value > 65535) {
    refuse(source, text, "'" + std::string(port) + "' is no port from 1 to 65535");
  }
  return value;
}

}  // namespace

std::string Endpoint::to_string() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return name + ":" + std::to_string(port);
}

Endpoint parse_endpoint(const std::string& text, const std::string& source) {
  Endpoint endpoint;
  if (text.find("://") != std::string::npos) refuse(source, text, "it is no URL");
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string::npos) refuse(source, text, "the closing ']' is missing");
    endpoint.host = text.substr(1, close - 1);
    if (!is_ipv6(endpoint.host)) refuse(source, text, "there is no IPv6 address in the brackets");
    const std::string rest = text.substr(close + 1);
    if (rest.empty()) return endpoint;
    if (!rest.starts_with(':')) refuse(source, text, "after ']' only a port may follow");
    endpoint.port = parse_port(source, text, std::string_view(rest).substr(1));
    return endpoint;
  }
  if (is_ipv6(text)) {
    endpoint.host = text;
    return endpoint;
  }
  const size_t colon = text.find(':');
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.empty()) refuse(source, text, "the host is missing");
  if (colon != std::string::npos && text.find(':', colon + 1) != std::string::npos) {
    refuse(source, text, "it has several colons and is no IPv6 address");
  }
  if (endpoint.host.size() > kLongestName ||
      !std::all_of(endpoint.host.begin(), endpoint.host.end(), is_name_character)) {
    refuse(source, text, "there is no host name before the port");
  }
  if (colon != std::string::npos) {
    endpoint.port = parse_port(source, text, std::string_view(text).substr(colon + 1));
  }
  return endpoint;
}

}  // namespace trainctl
