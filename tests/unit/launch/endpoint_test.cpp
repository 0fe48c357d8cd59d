#include "trainctl/launch/endpoint.h"

#include "environment_fixtures.h"

namespace trainctl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_endpoint(const std::string& text, const std::string& host, int64_t port) {
  const Endpoint endpoint = parse_endpoint(text, "--rdzv-endpoint");
  EXPECT_EQ(endpoint.host, host) << text;
  EXPECT_EQ(endpoint.port, port) << text;
}

TEST(Endpoint, NamesAddressesAndPorts) {
  expect_endpoint("node1", "node1", kRendezvousPort);
  expect_endpoint("node1.example.org:1", "node1.example.org", 1);
  expect_endpoint("10.0.0.1:65535", "10.0.0.1", 65535);
  expect_endpoint("[::1]:29401", "::1", 29401);
  expect_endpoint("[fe80::1%eth0]", "fe80::1%eth0", kRendezvousPort);
  expect_endpoint("2001:db8::7", "2001:db8::7", kRendezvousPort);
  EXPECT_EQ((Endpoint{"::1", 5}.to_string()), "[::1]:5");
  EXPECT_EQ((Endpoint{"node1", 5}.to_string()), "node1:5");
}

TEST(Endpoint, WhatIsNoneIsRefusedWithItsSource) {
  for (const char* text :
       {"", ":29400", "node1:", "node1:0", "node1:65536", "node1:http", "node1:1:2", "node1:-1",
        "node 1", "http://node1:29400", "[::1", "[::1]29400", "[::1]:", "[node1]:29400", "[]:1",
        "node1:29400/path", "node1: 29400"}) {
    EXPECT_THAT(usage_error_of([&] { parse_endpoint(text, "PET_RDZV_ENDPOINT"); }),
                AllOf(HasSubstr("PET_RDZV_ENDPOINT is '" + std::string(text) + "'"),
                      HasSubstr("host:port")))
        << text;
  }
}

}  // namespace
}  // namespace trainctl::testing
