// How ranks would find and reach each other.
#include <algorithm>
#include <array>
#include <cstdio>

#include "doctor/groups.h"
#include "doctor/interface_choice.h"
#include "doctor/network_evidence.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

NetworkEvidence network_of(const Evidence& evidence) {
  return evidence_of<NetworkEvidence>(evidence, "network");
}

Finding fine(const std::string& found, Verdict verdict = Verdict::kOk) {
  return {verdict, found, "", "", ""};
}

std::string variable(const NetworkEvidence& network, const std::string& name) {
  const auto found = network.variables.find(name);
  return found == network.variables.end() ? "" : found->second;
}

std::string names_of(const std::vector<Interface>& interfaces) {
  std::vector<std::string> names;
  for (const Interface& interface : interfaces) names.push_back(interface.name);
  return names.empty() ? "none" : join(names, ", ");
}

std::string with_address(const Interface& interface) {
  return interface.addresses.empty() ? interface.name
                                     : interface.name + " (" + interface.addresses.front() + ")";
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 0.1 ? "%.3f s" : "%.1f s", seconds);
  return text;
}

Finding judge_interfaces(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  std::vector<std::string> usable;
  for (const Interface& interface : network.interfaces) {
    if (!interface.running || interface.loopback || interface.addresses.empty()) continue;
    std::string text = with_address(interface);
    if (interface.speed > 0) text += " " + std::to_string(interface.speed) + " Mbit/s";
    if (interface.mtu > 0) text += " MTU " + std::to_string(interface.mtu);
    usable.push_back(text);
  }
  if (!usable.empty()) return fine(join(usable, ", "));
  return wrong(Verdict::kNote, "none but loopback", "no-interface");
}

Finding judge_loopback(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  if (network.loopback_trouble.empty()) return fine("works");
  return wrong(Verdict::kUnfit, network.loopback_trouble, "loopback-broken",
               {{"why", network.loopback_trouble}});
}

Finding judge_nccl(const Evidence& evidence, const DoctorOptions& options) {
  const NetworkEvidence network = network_of(evidence);
  const std::vector<Interface> chosen = nccl_interfaces(network);
  const std::string rule = variable(network, "NCCL_SOCKET_IFNAME");
  if (chosen.empty()) {
    const bool wanted = options.device != "cpu";
    if (rule.empty()) return wrong(Verdict::kNote, "NCCL finds none", "no-interface");
    return wrong(wanted ? Verdict::kUnfit : Verdict::kWarning, "NCCL finds none",
                 "nccl-ifname-nothing", {{"rule", rule}, {"there", names_of(network.interfaces)}});
  }
  const std::string found =
      "NCCL takes " + with_address(chosen.front()) +
      (chosen.size() > 1 ? ", and " + names_of({chosen.begin() + 1, chosen.end()}) : "");
  if (chosen.front().loopback || !looks_virtual(chosen.front().name) || !rule.empty())
    return fine(found);
  return wrong(Verdict::kWarning, found, "nccl-interface-virtual",
               {{"name", chosen.front().name}, {"there", names_of(network.interfaces)}});
}

// Names of GLOO_SOCKET_IFNAME, whole and divided by commas.
std::string missing_gloo_name(const NetworkEvidence& network, const std::string& list) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const bool there = std::any_of(
        network.interfaces.begin(), network.interfaces.end(), [&](const Interface& interface) {
          return interface.name == name && interface.running && !interface.addresses.empty();
        });
    if (!name.empty() && !there) return name;
  }
  return "";
}

Finding judge_gloo(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  const std::string list = variable(network, "GLOO_SOCKET_IFNAME");
  if (!list.empty()) {
    const std::string missing = missing_gloo_name(network, list);
    if (missing.empty()) return fine("Gloo takes " + list + " (GLOO_SOCKET_IFNAME)");
    return wrong(Verdict::kUnfit, "GLOO_SOCKET_IFNAME names '" + missing + "'",
                 "gloo-ifname-unknown",
                 {{"name", missing}, {"there", names_of(network.interfaces)}});
  }
  for (const Interface& interface : network.interfaces) {
    const auto& all = interface.addresses;
    if (std::find(all.begin(), all.end(), network.outward_address) == all.end()) continue;
    return fine("Gloo takes " + interface.name + " (" + network.outward_address +
                ") towards other hosts");
  }
  return fine("no way to other hosts; on this one Gloo takes loopback", Verdict::kNote);
}

Finding judge_own_name(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  const ResolvedName& own = network.own_name;
  if (!own.asked) return fine("not asked");
  const std::string name = "'" + own.name + "'";
  if (own.addresses.empty()) {
    return wrong(Verdict::kWarning, name + ": " + own.problem, "own-name-unresolved",
                 {{"name", own.name}, {"why", own.problem}});
  }
  const std::string found = name + " is " + join(own.addresses, ", ");
  if (own.only_loopback)
    return wrong(Verdict::kNote, found, "own-name-loopback",
                 {{"name", own.name}, {"address", own.addresses.front()}});
  if (own.seconds < 0.3) return fine(found);
  return wrong(Verdict::kWarning, found + ", after " + seconds_text(own.seconds),
               "name-service-slow", {{"seconds", seconds_text(own.seconds)}});
}

Finding judge_master(const Evidence& evidence, const DoctorOptions&) {
  const ResolvedName master = network_of(evidence).master;
  if (!master.asked) return fine("MASTER_ADDR is not set");
  const std::string name = "MASTER_ADDR=" + master.name;
  if (!master.addresses.empty()) return fine(name + ": " + join(master.addresses, ", "));
  return wrong(Verdict::kUnfit, name + ": " + master.problem, "name-unresolved",
               {{"name", master.name}, {"why", master.problem}});
}

Finding judge_one_host(const Reach& reach) {
  const std::string where =
      reach.target + (reach.address.empty() || reach.target.starts_with(reach.address)
                          ? ""
                          : " (" + reach.address + ")");
  const Facts facts = {{"target", reach.target},
                       {"name", reach.target},
                       {"why", reach.detail},
                       {"seconds", seconds_text(reach.seconds)}};
  if (reach.outcome == "open") return fine(where + " answers");
  if (reach.outcome == "refused" && !reach.port_given)
    return fine(where + " can be reached");  // the host itself has answered
  const char* explanation = reach.outcome == "refused"      ? "port-refused"
                            : reach.outcome == "silent"     ? "host-silent"
                            : reach.outcome == "unresolved" ? "name-unresolved"
                                                            : "host-unreachable";
  return wrong(Verdict::kUnfit, where + ": " + reach.detail, explanation, facts);
}

// The first host in trouble is explained, the others are named.
Finding judge_hosts(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  if (network.hosts.empty()) return fine("none asked for (--host NAME:PORT)");
  Finding worst;
  std::vector<std::string> lines;
  for (const Reach& reach : network.hosts) {
    const Finding one = judge_one_host(reach);
    lines.push_back(one.found);
    if (one.verdict > worst.verdict) worst = one;
  }
  worst.found = join(lines, "; ");
  return worst;
}

std::string rdma_text(const std::vector<RdmaPort>& ports) {
  std::vector<std::string> texts;
  for (const RdmaPort& port : ports) {
    texts.push_back(port.device + ":" + port.port + " " + port.state + " " + port.rate +
                    (port.layer == "Ethernet" ? " RoCE" : ""));
  }
  return join(texts, ", ");
}

Finding judge_rdma(const Evidence& evidence, const DoctorOptions& options) {
  const NetworkEvidence network = network_of(evidence);
  const std::string devices = variable(network, "NCCL_IB_HCA");
  if (network.rdma.empty()) {
    if (devices.empty()) return fine("none");
    return wrong(Verdict::kWarning, "none, but NCCL_IB_HCA=" + devices, "ib-hca-unknown",
                 {{"hca", devices}, {"there", "none"}});
  }
  const std::string found = rdma_text(network.rdma);
  if (options.device == "cpu") return fine(found);
  std::vector<std::string> down;
  for (const RdmaPort& port : network.rdma) {
    if (port.state != "ACTIVE") down.push_back(port.device + ":" + port.port);
  }
  if (down.size() == network.rdma.size())
    return wrong(Verdict::kWarning, found, "ib-ports-down", {{"ports", join(down, ", ")}});
  if (variable(network, "NCCL_IB_DISABLE") == "1")
    return wrong(Verdict::kWarning, found, "ib-disabled");
  if (!network.rdma_device_files) return wrong(Verdict::kWarning, found, "ib-no-device-files");
  if (!network.verbs_library) return wrong(Verdict::kWarning, found, "ib-no-library");
  if (!down.empty())
    return wrong(Verdict::kNote, found, "ib-ports-down", {{"ports", join(down, ", ")}});
  std::string prefix = devices;
  prefix.erase(0, prefix.find_first_not_of("^="));
  prefix = prefix.substr(0, prefix.find_first_of(",:"));
  const bool there =
      std::any_of(network.rdma.begin(), network.rdma.end(),
                  [&](const RdmaPort& port) { return port.device.starts_with(prefix); });
  if (there || devices.starts_with('^')) return fine(found);
  return wrong(Verdict::kWarning, found, "ib-hca-unknown", {{"hca", devices}, {"there", found}});
}

struct ValueRule {
  const char* name;
  std::vector<std::string> values;  // those allowed
};

Finding judge_variables(const Evidence& evidence, const DoctorOptions&) {
  const NetworkEvidence network = network_of(evidence);
  static const std::vector<ValueRule> kRules = {
      {"NCCL_SOCKET_FAMILY", {"AF_INET", "AF_INET6"}},
      {"NCCL_DEBUG", {"VERSION", "WARN", "INFO", "ABORT", "TRACE"}},
      {"NCCL_IB_DISABLE", {"0", "1"}},
      {"NCCL_P2P_DISABLE", {"0", "1"}},
      {"NCCL_SHM_DISABLE", {"0", "1"}},
  };
  for (const ValueRule& rule : kRules) {
    const std::string value = variable(network, rule.name);
    if (value.empty() ||
        std::find(rule.values.begin(), rule.values.end(), value) != rule.values.end())
      continue;
    const std::string found = std::string(rule.name) + "=" + value;
    return wrong(Verdict::kWarning, found, "nccl-variable-odd",
                 {{"name", rule.name}, {"value", value}, {"allowed", join(rule.values, ", ")}});
  }
  std::vector<std::string> set;
  for (const auto& [name, value] : network.variables) {
    if (name.starts_with("NCCL_") || name.starts_with("GLOO_")) set.push_back(name + "=" + value);
  }
  return fine(set.empty() ? "no NCCL_ or GLOO_ variables" : join(set, " "),
              set.empty() ? Verdict::kOk : Verdict::kNote);
}

Finding judge_clock(const Evidence& evidence, const DoctorOptions&) {
  const Clock clock = network_of(evidence).clock;
  constexpr int64_t kBegin2026 = 1767225600;  // no trainctl is older
  const auto time = static_cast<std::time_t>(clock.now);
  char text[32] = "";
  struct tm parts = {};
  if (::gmtime_r(&time, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  if (clock.now < kBegin2026) return wrong(Verdict::kWarning, text, "clock-wrong", {{"now", text}});
  if (!clock.known) return fine(text);
  if (!clock.synchronized)
    return wrong(Verdict::kNote, std::string(text) + ", not synchronised", "clock-unsynchronised");
  return fine(std::string(text) + ", synchronised");
}

constexpr std::array kProbes = {
    Probe{"network.interfaces", "interfaces", judge_interfaces},
    Probe{"network.loopback", "loopback", judge_loopback},
    Probe{"network.nccl", "NCCL's interface", judge_nccl},
    Probe{"network.gloo", "Gloo's interface", judge_gloo},
    Probe{"network.own_name", "own name", judge_own_name},
    Probe{"network.master", "rank 0's host", judge_master},
    Probe{"network.hosts", "given hosts", judge_hosts},
    Probe{"network.rdma", "InfiniBand", judge_rdma},
    Probe{"network.variables", "variables", judge_variables},
    Probe{"network.clock", "clock", judge_clock},
};

Json gather(const DoctorOptions& options) { return to_evidence(gather_network(options)); }

}  // namespace

Group network_group() { return {"network", gather, kProbes, true}; }

}  // namespace trainctl::doctor
