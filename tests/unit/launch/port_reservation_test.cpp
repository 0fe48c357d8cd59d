#include "trainctl/launch/port_reservation.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "launch/sockets.h"
#include "launch_fixtures.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// As a store does: bind with SO_REUSEADDR, then listen.
int listen_as_store(int64_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 8) == 0)
    return fd;
  ::close(fd);
  return -1;
}

TEST(PortReservation, FreePortsAreDistinctWhileTheyAreHeld) {
  std::vector<PortReservation> held;
  std::set<int64_t> ports;
  for (int i = 0; i < 300; ++i) {
    held.push_back(PortReservation::make("127.0.0.1", 0));
    ports.insert(held.back().port());
  }
  EXPECT_EQ(ports.size(), held.size());
}

TEST(PortReservation, AStoreCanListenOnIt) {
  const PortReservation reservation = PortReservation::make("127.0.0.1", 0);
  const int fd = listen_as_store(reservation.port());
  EXPECT_GE(fd, 0);
  ::close(fd);
}

TEST(PortReservation, AnotherReservationOfTheSamePortIsRefused) {
  const PortReservation first = PortReservation::make("127.0.0.1", 0);
  EXPECT_THAT(
      refusal([&] { PortReservation::make("host7", first.port()); }, ExitCode::kEnvironment),
      AllOf(HasSubstr(std::to_string(first.port())), HasSubstr("host7"),
            HasSubstr("another trainctl launch")));
}

TEST(PortReservation, APortInUseIsRefusedWithAddressAndPort) {
  int64_t port = PortReservation::make("", 0).port();
  const int fd = listen_as_store(port);
  ASSERT_GE(fd, 0);
  EXPECT_THAT(refusal([&] { PortReservation::make("127.0.0.1", port); }, ExitCode::kEnvironment),
              AllOf(HasSubstr("port " + std::to_string(port) + " of 127.0.0.1"),
                    HasSubstr("another process holds it")));
  ::close(fd);
}

TEST(PortReservation, APortHeldAtOneAddressOnlyIsNamedWithIt) {
  const int64_t port = PortReservation::make("", 0).port();
  Resolution six = resolve("::1", port, std::chrono::seconds(1), [] { return false; });
  const Descriptor holder = trainctl::listen_on(six.addresses.at(0));
  if (!holder.open()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_THAT(refusal([&] { PortReservation::make("127.0.0.1", port); }, ExitCode::kEnvironment),
              HasSubstr("another process holds it at [::1]:" + std::to_string(port)));
}

TEST(PortReservation, WithoutDescriptorsItSpeaksOfOpenFiles) {
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const std::string text =
      refusal([] { PortReservation::make("127.0.0.1", 0); }, ExitCode::kEnvironment);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(text, AllOf(HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
}

TEST(PortReservation, EndsWithItsOwner) {
  int64_t port = 0;
  {
    PortReservation first = PortReservation::make("", 0);
    port = first.port();
    const PortReservation moved = std::move(first);
    EXPECT_EQ(moved.port(), port);
  }
  EXPECT_EQ(PortReservation::make("", port).port(), port);
}

TEST(LocalNodeGroup, GivesEachAttemptAPortAndIsDoneByItself) {
  const auto group = make_local_node_group("127.0.0.1", 0, "id");
  NodeOffer offer;
  offer.local_world_size = 3;
  const auto node = group->join(offer, 0, [] { return false; });
  ASSERT_TRUE(node);
  EXPECT_EQ(node->world_size, 3);
  EXPECT_EQ(node->run_id, "id");
  EXPECT_GT(node->master_port, 0);
  EXPECT_FALSE(group->next_event());
  group->report_done();
  EXPECT_EQ(group->next_event()->kind, NodeEvent::Kind::kAllDone);
  EXPECT_FALSE(group->join(offer, 1, [] { return true; }));
}

}  // namespace
}  // namespace trainctl
