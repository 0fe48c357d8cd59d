#include "doctor/network_evidence.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "doctor/small_files.h"
#include "launch/sockets.h"
#include "trainctl/launch/endpoint.h"

extern char** environ;

namespace trainctl::doctor {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kNamePatience{700};

bool never() { return false; }

double seconds_since(SteadyTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string numeric(const sockaddr* address) {
  char text[NI_MAXHOST];
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int status = ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? text : "";
}

std::vector<Interface> interfaces_of(const fs::path& root) {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto same = std::find_if(found.begin(), found.end(),
                             [&](const Interface& known) { return known.name == entry->ifa_name; });
    if (same == found.end()) {
      Interface fresh;
      fresh.name = entry->ifa_name;
      fresh.running = (entry->ifa_flags & IFF_RUNNING) != 0 && (entry->ifa_flags & IFF_UP) != 0;
      fresh.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      const fs::path folder = root / "sys/class/net" / fresh.name;
      fresh.mtu = number_in(first_line_of(folder / "mtu")).value_or(0);
      fresh.speed = number_in(first_line_of(folder / "speed")).value_or(-1);
      same = found.insert(found.end(), std::move(fresh));
    }
    const sockaddr* address = entry->ifa_addr;
    if (address == nullptr) continue;
    if (address->sa_family == AF_INET || address->sa_family == AF_INET6)
      same->addresses.push_back(numeric(address));
  }
  ::freeifaddrs(list);
  return found;
}

std::vector<RdmaPort> rdma_ports(const fs::path& root) {
  std::vector<RdmaPort> found;
  std::error_code error;
  for (fs::directory_iterator device(root / "sys/class/infiniband", error), end;
       !error && device != end; device.increment(error)) {
    std::error_code no_ports;
    for (fs::directory_iterator port(device->path() / "ports", no_ports); !no_ports && port != end;
         port.increment(no_ports)) {
      RdmaPort one;
      one.device = device->path().filename();
      one.port = port->path().filename();
      const std::string state = first_line_of(port->path() / "state");  // "4: ACTIVE"
      one.state = trimmed(state.substr(std::min(state.size(), state.find(':') + 1)));
      one.rate = trimmed(first_line_of(port->path() / "rate"));
      one.layer = trimmed(first_line_of(port->path() / "link_layer"));
      found.push_back(std::move(one));
    }
  }
  std::sort(found.begin(), found.end(), [](const RdmaPort& a, const RdmaPort& b) {
    return a.device != b.device ? a.device < b.device : a.port < b.port;
  });
  return found;
}

bool has_verbs_devices(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "dev/infiniband", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with("uverbs")) return true;
  }
  return false;
}

// Those that say how processes find each other.
std::map<std::string, std::string> variables() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name.size() == text.size()) continue;
    const bool wanted = name.starts_with("NCCL_") || name.starts_with("GLOO_") ||
                        name.starts_with("MASTER_") || name == "http_proxy" ||
                        name == "HTTP_PROXY" || name == "no_proxy" || name == "NO_PROXY";
    if (wanted) found[name] = text.substr(name.size() + 1);
  }
  return found;
}

ResolvedName resolve_name(const std::string& name) {
  ResolvedName found;
  found.name = name;
  found.asked = true;
  const SteadyTime begin = std::chrono::steady_clock::now();
  const Resolution answer = resolve(name, 1, kNamePatience, never);
  found.seconds = seconds_since(begin);
  found.problem = answer.problem;
  for (const Address& address : answer.addresses) found.addresses.push_back(address.host());
  found.only_loopback = !answer.addresses.empty() &&
                        std::all_of(answer.addresses.begin(), answer.addresses.end(),
                                    [](const Address& address) { return address.is_loopback(); });
  return found;
}

// Of a datagram socket that is connected but never written to: only the routing table is asked.
std::string address_towards(const std::string& numeric_host) {
  const Resolution target = resolve(numeric_host, 9, milliseconds(1), never);
  for (const Address& address : target.addresses) {
    const Descriptor fd(::socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    Address own;
    own.length = sizeof own.storage;
    if (fd.open() && ::connect(fd.get(), address.get(), address.length) == 0 &&
        ::getsockname(fd.get(), own.get(), &own.length) == 0) {
      return own.host();
    }
  }
  return "";
}

std::string try_loopback() {
  const Resolution here = resolve("127.0.0.1", 0, milliseconds(1), never);
  if (here.addresses.empty()) return here.problem;
  const Descriptor listener = listen_on(here.addresses.front());
  if (!listener.open()) return error_text(errno);
  Address there = here.addresses.front();
  reinterpret_cast<sockaddr_in*>(&there.storage)->sin_port =
      htons(static_cast<uint16_t>(bound_port(listener.get())));
  std::string trouble;
  const Descriptor connection = connect_to(there, milliseconds(500), never, &trouble);
  return connection.open() ? "" : trouble;
}

Clock clock_of() {
  Clock clock;
  clock.now = static_cast<int64_t>(::time(nullptr));
  struct timex state = {};
  const int status = ::adjtimex(&state);
  if (status < 0) return clock;
  clock.known = true;
  clock.synchronized = status != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  clock.error_seconds = static_cast<double>(state.maxerror) / 1e6;
  return clock;
}

std::vector<Reach> reach_all(const DoctorOptions& options) {
  std::vector<Reach> found(options.hosts.size());
  std::vector<std::thread> askers;
  for (size_t i = 0; i < found.size(); ++i) {
    askers.emplace_back(
        [&found, &options, i] { found[i] = try_to_reach(options.hosts[i], options.deadline / 3); });
  }
  for (std::thread& asker : askers) asker.join();
  return found;
}

bool can_open(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

}  // namespace

Reach try_to_reach(const std::string& target, milliseconds patience) {
  const Endpoint endpoint = parse_endpoint(target, "--host");
  Reach reach;
  reach.target = target;
  reach.port_given = target != endpoint.host && target != "[" + endpoint.host + "]";
  const SteadyTime begin = std::chrono::steady_clock::now();
  const Resolution names = resolve(endpoint.host, endpoint.port, patience, never);
  reach.outcome = "unresolved";
  reach.detail = names.problem;
  const auto count = static_cast<int64_t>(names.addresses.size());
  for (const Address& address : names.addresses) {
    reach.address = address.host();
    reach.detail.clear();
    const Descriptor connection = connect_to(address, patience / count, never, &reach.detail);
    if (connection.open())
      reach.outcome = "open";
    else if (reach.detail == error_text(ECONNREFUSED))
      reach.outcome = "refused";
    else if (reach.detail == error_text(ETIMEDOUT))
      reach.outcome = "silent";
    else
      reach.outcome = "unreachable";
    if (reach.outcome == "open" || reach.outcome == "refused") break;
  }
  reach.seconds = seconds_since(begin);
  return reach;
}

NetworkEvidence gather_network(const DoctorOptions& options) {
  NetworkEvidence found;
  found.interfaces = interfaces_of(options.root);
  found.rdma = rdma_ports(options.root);
  found.rdma_device_files = has_verbs_devices(options.root);
  found.verbs_library = !found.rdma.empty() && can_open("libibverbs.so.1");
  found.variables = variables();
  found.clock = clock_of();
  if (options.quick) {
    found.outward_address = address_towards("192.0.2.1");  // of RFC 5737: nobody's
    return found;
  }
  std::vector<std::thread> askers;
  askers.emplace_back([&] { found.hosts = reach_all(options); });
  const auto master = found.variables.find("MASTER_ADDR");
  if (master != found.variables.end() && !master->second.empty())
    askers.emplace_back([&] { found.master = resolve_name(master->second); });
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  found.own_name = resolve_name(name);
  for (std::thread& asker : askers) asker.join();
  found.loopback_trouble = try_loopback();
  const bool far = !found.master.addresses.empty() && !found.master.only_loopback;
  found.outward_address = address_towards(far ? found.master.addresses.front() : "192.0.2.1");
  return found;
}

}  // namespace trainctl::doctor
