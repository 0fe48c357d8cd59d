#include "parallel/meeting.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "parallel/deadline.h"
#include "parallel/failure.h"
#include "parallel/network.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/process.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{10000};  // then whoever waits says for whom
constexpr milliseconds kSlice{250};       // between two looks at stop requests

std::string endpoint(const ProcessWorld& world) {
  const bool v6 = world.master_addr.find(':') != std::string::npos;
  return (v6 ? "[" + world.master_addr + "]" : world.master_addr) + ":" +
         std::to_string(world.master_port);
}

std::string seconds_text(milliseconds time) {
  return human_duration(std::chrono::duration<double>(time).count());
}

[[noreturn]] void refuse_connection(const ProcessWorld& world, bool server,
                                    const std::string& reason, milliseconds timeout) {
  const bool in_use = reason.find("EADDRINUSE") != std::string::npos ||
                      reason.find("ddress already in use") != std::string::npos;
  if (server && in_use) {
    throw environment_error("port " + std::to_string(world.master_port) +
                            " of this host (MASTER_PORT) is in use by another program; choose "
                            "another port, or let the launcher choose one");
  }
  const std::string what =
      server ? "rank 0 cannot serve the run's store at " + endpoint(world)
             : "rank " + std::to_string(world.rank) + " cannot reach the run's store at " +
                   endpoint(world) + ", which " + (world.agent_store ? "the launcher" : "rank 0") +
                   " serves, within " + seconds_text(timeout);
  throw environment_error(what + ": " + first_line(reason) +
                          "; is MASTER_ADDR rank 0's host, does rank 0 run, and do firewalls let "
                          "the port through?");
}

// Asked to stop before there is anything to save: the end is the signal's own.
void end_if_asked(const StopRequest& stop) {
  const int signal = stop ? stop() : 0;
  if (signal == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

[[noreturn]] void store_has_gone(const ProcessWorld& world, const StopRequest& stop) {
  for (int i = 0; i < 20; ++i) {  // its process says why; a launcher hears it first
    end_if_asked(stop);
    std::this_thread::sleep_for(milliseconds(50));
  }
  throw environment_error("the run's store at " + endpoint(world) +
                          " has gone while ranks were still coming; the process that served it, " +
                          (world.agent_store ? "the launcher" : "rank 0") +
                          ", has ended, and its own message says why");
}

c10::intrusive_ptr<c10d::Store> connect(const ProcessWorld& world, bool server,
                                        milliseconds timeout, const StopRequest& stop) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.isServer = server;
  options.numWorkers = static_cast<std::size_t>(world.world_size);
  options.waitWorkers = false;  // meet() waits, and can say who is missing
  options.timeout = timeout;
  try {
    // Whatever listens there may be no store, and never answer.
    const auto open = [address = world.master_addr, options] {
      return c10::make_intrusive<c10d::TCPStore>(address, options);
    };
    auto store = within(timeout + kPatience, open, [&] { end_if_asked(stop); }).value_or(nullptr);
    if (!store) refuse_connection(world, server, "what listens there does not answer", timeout);
    // As PyTorch's workers do under torchrun's agent, whose store outlives an attempt.
    const std::string attempt = "attempt_" + std::to_string(world.restart_count);
    return c10::make_intrusive<c10d::PrefixStore>(
        world.agent_store ? "/worker/" + attempt : attempt, store);
  } catch (const c10::Error& error) {
    refuse_connection(world, server, error.what_without_backtrace(), timeout);
  }
}

std::string rank_key(int64_t rank) { return "rank/" + std::to_string(rank); }

std::vector<std::string> missing_ranks(c10d::Store& store, const ProcessWorld& world) {
  std::vector<std::string> missing;
  for (int64_t rank = 0; rank < world.world_size; ++rank) {
    if (!store.check({rank_key(rank)})) missing.push_back(std::to_string(rank));
  }
  return missing;
}

// Long lists are cut: at a thousand ranks the first few say enough.
std::string short_list(std::vector<std::string> names) {
  constexpr size_t kShown = 16;
  const size_t count = names.size();
  if (count > kShown) {
    names.resize(kShown);
    names.push_back("… (" + std::to_string(count) + " in all)");
  }
  return join(names, ", ");
}

void wait_for_all(c10d::Store& store, const ProcessWorld& world, const std::string& key,
                  milliseconds timeout, const StopRequest& stop) {
  const Clock::time_point begin = Clock::now();
  for (bool said = false;;) {
    end_if_asked(stop);
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    const milliseconds slice = std::min(kSlice, std::max(timeout - waited, milliseconds(1)));
    try {
      store.wait({key}, slice);
      return;
    } catch (const c10::Error& error) {
      const auto now_waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
      if (now_waited - waited + milliseconds(50) < slice) {
        store_has_gone(world, stop);
      }
      if (now_waited < std::min(timeout, kPatience) || (said && now_waited < timeout)) continue;
      const std::string missing = short_list(missing_ranks(store, world));
      if (now_waited >= timeout && missing.empty()) {
        throw environment_error("all " + std::to_string(world.world_size) +
                                " ranks have come, but not to the same point within " +
                                seconds_text(timeout) +
                                " (parallel.timeout): one has ended meanwhile, or was started with "
                                "another WORLD_SIZE");
      }
      if (now_waited >= timeout) {
        throw environment_error("not all ranks have come within " + seconds_text(timeout) +
                                " (parallel.timeout): of " + std::to_string(world.world_size) +
                                " ranks these are missing: " + missing +
                                "; see whether their processes run and what they say");
      }
      if (!said && world.rank == 0) log_info("waiting for ranks " + missing);
      said = true;
    }
  }
}

// The last rank to come opens the gate.
void count_in(c10d::Store& store, const ProcessWorld& world, const std::string& gate) {
  if (store.add(gate + "/count", 1) == world.world_size)
    store.set(gate + "/open", std::string("1"));
}

void pass(c10d::Store& store, const ProcessWorld& world, const std::string& gate,
          milliseconds timeout, const StopRequest& stop) {
  count_in(store, world, gate);
  wait_for_all(store, world, gate + "/open", timeout, stop);
}

// "optimizer.learning_rate is 0.1, rank 0 has 0.2", of the first difference.
std::string first_difference(const Json& mine, const Json& theirs) {
  const Json patch = Json::diff(theirs, mine);
  if (patch.empty()) return "";
  std::string path = patch[0].at("path").get<std::string>();
  const Json::json_pointer pointer(path);
  const auto value = [&](const Json& json) {
    return json.contains(pointer) ? json.at(pointer).dump() : std::string("nothing");
  };
  std::string text = value(mine) + ", rank 0 has " + value(theirs);
  std::replace(path.begin(), path.end(), '/', '.');
  return path.substr(1) + " is " + text;
}

Json introduction(c10d::Store& store, int64_t rank) {
  return Json::parse(store.get_to_str(rank_key(rank)));
}

void agree(c10d::Store& store, const ProcessWorld& world, const Json& mine, milliseconds timeout,
           const StopRequest& stop) {
  const std::string difference = first_difference(mine, introduction(store, 0).at("agree"));
  if (!difference.empty()) {
    store.set("disagreement", "rank " + std::to_string(world.rank) + " on " +
                                  ProcessIdentity::self().host + ": " + difference);
  }
  pass(store, world, "agreed", timeout, stop);
  if (!store.check({"disagreement"})) return;
  const std::string text = store.get_to_str("disagreement");
  // The store ends with rank 0's process: that one waits until all have read. The others do not
  // wait for each other, as it may be gone before they hear of it.
  count_in(store, world, "read");
  if (world.rank == 0) wait_for_all(store, world, "read/open", kPatience, stop);
  throw usage_error("the ranks of this run were started differently (" + text +
                    "); start all of them with the same program and the same config");
}

// Towards rank 0's host, unless that is this one and its own name means the loopback interface, as
// Debian's /etc/hosts has it: then towards a host that has found its way here.
std::string own_address(c10d::Store& store, const ProcessWorld& world, const std::string& first) {
  if (world.node_count <= 1 || !is_loopback(first)) return first;
  const Json other =
      introduction(store, world.rank == 0 || world.node_rank == 0 ? world.world_size - 1 : 0);
  const std::string towards = local_address_towards(other.at("address").get<std::string>());
  return towards.empty() ? first : towards;
}

void introduce(c10d::Store& store, const ProcessWorld& world, const std::string& address,
               const Json& must_agree, milliseconds timeout, const StopRequest& stop) {
  if (store.add("claim/" + std::to_string(world.rank), 1) > 1) {
    throw usage_error("two processes of this run say that they are rank " +
                      std::to_string(world.rank) + "; the launcher has to give each its own RANK");
  }
  const Json mine = {{"host", ProcessIdentity::self().host},
                     {"pid", ::getpid()},
                     {"address", address},
                     {"agree", must_agree}};
  store.set(rank_key(world.rank), mine.dump());
  pass(store, world, "arrived", timeout, stop);
  agree(store, world, must_agree, timeout, stop);
}

}  // namespace

std::string introduction_of(c10d::Store& store, int64_t rank) {
  if (!store.check({rank_key(rank)})) return "";
  const Json json = introduction(store, rank);
  return json.at("host").get<std::string>() + ", process " +
         std::to_string(json.at("pid").get<int64_t>());
}

MeetingPlace meet(const ProcessWorld& world, milliseconds timeout, const std::string& must_agree,
                  const StopRequest& stop) {
  require_resolvable(world.master_addr, "MASTER_ADDR, set by " + world.source);
  MeetingPlace place;
  place.served_here = world.rank == 0 && !world.agent_store;
  place.store = connect(world, place.served_here, timeout, stop);
  place.address = local_address_towards(world.master_addr);
  try {
    introduce(*place.store, world, place.address, Json::parse(must_agree), timeout, stop);
    place.address = own_address(*place.store, world, place.address);
  } catch (const c10::DistError&) {
    store_has_gone(world, stop);
  }
  return place;
}

}  // namespace trainctl
