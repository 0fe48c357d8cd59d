// One process's place among the processes of a run: what torchrun's variables, Slurm's or our own
// launcher say. Read from the environment in the executable (launch/process_world.h) and carried to
// the engine with the request.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

struct ProcessWorld {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;  // among the processes of this host
  int64_t local_world_size = 1;
  int64_t node_rank = 0;  // GROUP_RANK
  int64_t node_count = 1;
  std::string master_addr;  // where rank 0's store listens; empty for a single process
  int64_t master_port = 0;
  int64_t restart_count = 0;  // attempts before this one
  std::string run_id;         // of the launch, the same on all its processes
  // The launcher hosts the store (torchrun); every rank is then a client of it. Otherwise rank 0
  // hosts it.
  bool agent_store = false;
  std::string source;  // who said so, for messages: "torchrun", "trainctl launch", "srun", …

  bool distributed() const { return world_size > 1; }
};

}  // namespace trainctl
