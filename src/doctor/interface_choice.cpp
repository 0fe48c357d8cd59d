#include "doctor/interface_choice.h"

#include <algorithm>
#include <sstream>

namespace trainctl::doctor {
namespace {

std::vector<std::string> divided(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    name = name.substr(0, name.find(':'));  // "eth0:2" names a port too
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool has_address_of(const Interface& interface, const std::string& family) {
  return std::any_of(interface.addresses.begin(), interface.addresses.end(),
                     [&](const std::string& address) {
                       const bool v6 = address.find(':') != std::string::npos;
                       if (v6 && interface.loopback) return false;
                       return family.empty() || v6 == (family == "AF_INET6");
                     });
}

std::vector<Interface> selected(const std::vector<Interface>& all, std::string rule,
                                const std::string& family) {
  const bool without = rule.starts_with('^');
  if (without) rule.erase(0, 1);
  const bool whole = rule.starts_with('=');
  if (whole) rule.erase(0, 1);
  const std::vector<std::string> names = divided(rule);
  std::vector<Interface> found;
  for (const Interface& interface : all) {
    if (!interface.running || !has_address_of(interface, family)) continue;
    const bool matches =
        names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return whole ? interface.name == name : interface.name.starts_with(name);
        });
    if (matches != without) found.push_back(interface);
  }
  return found;
}

std::string variable(const NetworkEvidence& evidence, const std::string& name) {
  const auto found = evidence.variables.find(name);
  return found == evidence.variables.end() ? "" : found->second;
}

}  // namespace

std::vector<Interface> nccl_interfaces(const NetworkEvidence& evidence) {
  std::string family = variable(evidence, "NCCL_SOCKET_FAMILY");
  if (family != "AF_INET" && family != "AF_INET6") family.clear();
  const std::string rule = variable(evidence, "NCCL_SOCKET_IFNAME");
  if (rule.size() > 1) return selected(evidence.interfaces, rule, family);
  for (const char* own : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    std::vector<Interface> found = selected(evidence.interfaces, own, family);
    if (!found.empty()) return found;
  }
  return {};
}

bool looks_virtual(const std::string& name) {
  static constexpr const char* kPrefixes[] = {
      "docker", "br-", "virbr",     "veth", "cni",   "flannel", "cali", "cilium", "tun",
      "tap",    "wg",  "tailscale", "zt",   "vmnet", "vboxnet", "lxc",  "podman", "kube-"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace trainctl::doctor
