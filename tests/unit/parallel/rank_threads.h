// Several ranks in one process, a thread each: enough for what needs no second process.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "trainctl/parallel/communicator.h"

namespace trainctl {

inline int64_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ::bind(fd, reinterpret_cast<const sockaddr*>(&address), length);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return ntohs(address.sin_port);
}

struct RankThreads {
  ParallelConfig config;
  std::function<std::string(int64_t rank)> must_agree = [](int64_t) { return "{}"; };

  // What each rank's call threw, or "".
  std::vector<std::string> run(int64_t count,
                               const std::function<void(Communicator&)>& call) const {
    const int64_t port = free_port();
    std::vector<std::string> errors(static_cast<size_t>(count));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        ProcessWorld world;
        world.rank = world.local_rank = rank;
        world.world_size = world.local_world_size = count;
        world.master_addr = "127.0.0.1";
        world.master_port = port;
        world.source = "a test";
        try {
          const auto communicator = join_ranks(world, config, must_agree(rank), {});
          communicator->use_device(at::kCPU);
          call(*communicator);
          communicator->barrier("end of the test");
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
};

inline const std::vector<std::string> kNoErrors2(2), kNoErrors3(3);

}  // namespace trainctl
